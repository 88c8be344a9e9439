/* A controller on a bare Cortex-M4 (QEMU's mps2-an386, no operating system, no startup files), timed.
 *
 *     neol export runs/lander --to c --precision float --name controller --out controller.h
 *     arm-none-eabi-gcc -std=c99 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffunction-sections \
 *         -nostartfiles --specs=nosys.specs -T cortex_m.ld -Wl,--gc-sections cortex_m.c -lm -o controller.elf
 *     qemu-system-arm -M mps2-an386 -nographic -semihosting -icount shift=0 -kernel controller.elf
 *
 * It lives STEPS steps in a made-up world and tells how long a step took and where the life ended. For the same on your
 * own computer: cc -std=c99 -DREAL=float cortex_m.c -lm. Numbers that are doubles: -DREAL=double, and --precision double.
 */
#include "controller.h"

#ifndef REAL
#define REAL float
#endif
#define STEPS 1000

static unsigned long noise;

/* A number in [-1, 1), the same on every machine. */
static REAL made_up(void) {
    noise = (noise * 1103515245UL + 12345UL) & 0x7FFFFFFFUL;
    return (REAL)(long)(noise >> 15) / (REAL)32768 - (REAL)1;
}

/* A life; what is returned sums up its actions, in millionths. */
static long live(void) {
    static controller_state state;
    REAL observation[CONTROLLER_INPUTS], action[CONTROLLER_ACTIONS], sum = 0;
    noise = 1;
    controller_init(&state);
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < CONTROLLER_INPUTS; i++) {
            observation[i] = made_up();
        }
        controller_step(&state, observation, made_up(), action);
        for (int a = 0; a < CONTROLLER_ACTIONS; a++) {
            sum += action[a] / STEPS;
        }
    }
    return (long)(sum * (REAL)1000000);
}

#ifdef __arm__
#define SYSTICK ((volatile unsigned long *)0xE000E010UL) /* control, reload, value; at 25 MHz */
#define FPU (*(volatile unsigned long *)0xE000ED88UL)

/* Semihosting: the emulator or debugger does it. */
static void host(int what, const void *with) {
    register int r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(const char *text, long number) {
    char digits[12];
    int at = 11;
    unsigned long left = number < 0 ? 0UL - (unsigned long)number : (unsigned long)number;
    host(4, text);
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0) {
        host(4, "-");
    }
    host(4, digits + at);
    host(4, "\n");
}

__attribute__((noinline)) static void run(void) {
    SYSTICK[1] = 0xFFFFFFUL;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5;
    while (!SYSTICK[2]) {
    }
    const unsigned long from = SYSTICK[2];
    for (int t = 0; t < STEPS; t++) { /* the made-up world alone */
        for (int i = 0; i < CONTROLLER_INPUTS + 1; i++) {
            (void)made_up();
        }
    }
    const unsigned long between = SYSTICK[2];
    const long sum = live();
    const unsigned long to = SYSTICK[2];
    /* with -icount shift=0 an instruction is a nanosecond, and a tick 40 of them */
    print("instructions per step: ", (long)((between - to) - (from - between)) * 40 / STEPS);
    print("bytes of state: ", (long)sizeof(controller_state));
    print("actions, summed up: ", sum);
    host(0x18, (const void *)0x20026UL);
}

void reset(void) {
    FPU |= 0xFUL << 20; /* on, before anything uses it */
    __asm__ volatile("dsb\n isb");
    run();
    for (;;) {
    }
}

extern unsigned long stack_top; /* cortex_m.ld */
static const struct {
    unsigned long *stack;
    void (*start)(void);
} vectors __attribute__((section(".vectors"), used)) = {&stack_top, reset};
#else
#include <stdio.h>

int main(void) {
    printf("bytes of state: %ld\nactions, summed up: %ld\n", (long)sizeof(controller_state), live());
    return 0;
}
#endif
