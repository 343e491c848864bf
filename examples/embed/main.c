/* A program around examples/collatz.tflite: circlet compile examples/collatz.tflite --target host -o build
   cc -Ibuild examples/embed/main.c build/collatz.o -o collatz && ./collatz 27 */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#include "collatz.h"

static alignas(COLLATZ_ALIGNMENT) unsigned char state[COLLATZ_STATE_BYTES + 1], arena[COLLATZ_ARENA_BYTES + 1];

int main(int count, char **arguments) {
    int32_t n = count > 1 ? atoi(arguments[1]) : 27, steps, peak;
    collatz_inputs inputs = {.n = &n};
    collatz_outputs outputs = {.steps = &steps, .peak = &peak};

    collatz_init(state);
    ((collatz_limits *)state)->iterations = 1000;

    int32_t status = collatz_run(&inputs, &outputs, arena, state);
    if (status != COLLATZ_OK) {
        fprintf(stderr, status == COLLATZ_EXHAUSTED ? "more than 1000 steps\n" : "status %d\n", (int)status);
        return 1;
    }
    printf("%d: %d steps, up to %d\n", (int)n, (int)steps, (int)peak);
    return 0;
}
