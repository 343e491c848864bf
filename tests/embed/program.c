/* Runs a compiled model on the inputs of CALLS and writes what it gives, in hexadecimal, a line for each output. */
#include <stdio.h>
#include MODEL_HEADER

#define ALIGNED __attribute__((aligned(64)))
static unsigned char arena[ARENA_BYTES + 1] ALIGNED, state[STATE_BYTES + 1] ALIGNED;

static void dirty(unsigned char *memory, unsigned long size) {
    for (unsigned long k = 0; k < size; k++) memory[k] = 0xA5;
}

static void write_bytes(const unsigned char *data, unsigned long size) {
    static const char digits[] = "0123456789abcdef";
    static char line[256];
    unsigned long at = 0;
    for (unsigned long k = 0; k < size; k++) {
        line[at++] = digits[data[k] >> 4];
        line[at++] = digits[data[k] & 15];
        if (at == 254) {
            fwrite(line, 1, at, stdout);
            at = 0;
        }
    }
    line[at++] = '\n';
    fwrite(line, 1, at, stdout);
}

__attribute__((unused)) static void write_numbers(const size_t *numbers, int count) {
    for (int k = 0; k < count; k++) printf("%s%lu", k ? " " : "", (unsigned long)numbers[k]);
    printf("\n");
}

static void run(int status) {
    printf("status %d\n", status);
}

#include "calls.h"

int main(void) {
    dirty(arena, sizeof arena);
    dirty(state, sizeof state);
    INIT(state);
    CALLS
    if (arena[ARENA_BYTES] != 0xA5 || state[STATE_BYTES] != 0xA5) printf("status -1\n");
    return 0;
}
