/* What runs before main on a Cortex-M: vectors, memory, the floating-point unit, semihosting for printf and exit. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top, data_begin, data_end, data_source, bss_begin, bss_end;
extern int main(void);
extern void initialise_monitor_handles(void);

void _init(void) {}
void _fini(void) {}

static volatile uint32_t *const CPACR = (volatile uint32_t *)0xE000ED88;

/* The SysTick timer, 24 bits, counts down with the clock of the processor. */
static volatile uint32_t *const SYST_CSR = (volatile uint32_t *)0xE000E010;
static volatile uint32_t *const SYST_RVR = (volatile uint32_t *)0xE000E014;
static volatile uint32_t *const SYST_CVR = (volatile uint32_t *)0xE000E018;
static volatile uint32_t rounds;

void tick(void) { rounds++; }

/* Ticks since the beginning. */
uint64_t ticks(void) {
    uint32_t before, left;
    do {
        before = rounds;
        left = *SYST_CVR;
    } while (before != rounds);
    return ((uint64_t)before << 24) + (0xFFFFFF - left);
}

__attribute__((naked, noreturn)) void reset(void) {
    __asm volatile("ldr r0, =stack_top\n mov sp, r0\n b start");
}

__attribute__((noreturn, used)) void start(void) {
#ifdef __ARM_FP
    *CPACR |= 0xFu << 20; /* lets code use the floating-point unit */
    __asm volatile("dsb\n isb");
#endif
    uint32_t *from = &data_source;
    for (uint32_t *to = &data_begin; to < &data_end;) *to++ = *from++;
    for (uint32_t *to = &bss_begin; to < &bss_end;) *to++ = 0;
    *SYST_RVR = 0xFFFFFF;
    *SYST_CVR = 0;
    *SYST_CSR = 7; /* on, with interrupts, by the processor's clock */
    initialise_monitor_handles();
    exit(main());
}

void fault(void) { exit(3); }

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    &stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, 0, 0, 0, 0, tick,
};
