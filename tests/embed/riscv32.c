/* What runs before main on RV32 in qemu's user mode, with picolibc: what belongs to the only thread is zero. */
#include <stdlib.h>

extern int main(void);
static char thread[1024] __attribute__((aligned(16)));

__attribute__((noreturn, used)) void begin(void) {
    __asm volatile("mv tp, %0" : : "r"(thread));
    exit(main());
}

__attribute__((naked, noreturn)) void _start(void) {
    __asm volatile(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\nj begin");
}
