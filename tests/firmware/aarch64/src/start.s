// From reset to `main`, at EL1: exception vectors, stack, floating point, memory, the MMU.

// Block descriptors: normal memory, write-back; or a device. The access flag is set in all.
.equ CODE,   1 | 0 << 2 | 2 << 6 | 3 << 8 | 1 << 10
.equ NEVER_EXECUTE, 3 << 53
.equ CONST,  CODE | NEVER_EXECUTE
.equ RAM,    1 | 0 << 2 | 0 << 6 | 3 << 8 | 1 << 10 | NEVER_EXECUTE
.equ DEVICE, 1 | 1 << 2 | 0 << 6 | 1 << 10 | NEVER_EXECUTE
.equ TABLE,  3

.section .text.start, "ax"
.global start
start:
    ldr     x0, =vectors
    msr     vbar_el1, x0
    // Nothing traps floating point and NEON.
    mov     x0, #(3 << 20)
    msr     cpacr_el1, x0

    // Attribute 0 is normal memory, cached; attribute 1 is a device.
    mov     x0, #0xFF
    msr     mair_el1, x0
    // 39 bits of virtual address by one table, pages of 4 KiB, 36 bits of physical address; walks are cached.
    ldr     x0, =(25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 1 << 32)
    msr     tcr_el1, x0
    ldr     x0, =level1
    msr     ttbr0_el1, x0
    tlbi    vmalle1
    dsb     sy
    isb
    mrs     x0, sctlr_el1
    // MMU, data cache, instruction cache.
    mov     x1, #(1 << 0 | 1 << 2)
    orr     x1, x1, #(1 << 12)
    orr     x0, x0, x1
    msr     sctlr_el1, x0
    isb

    ldr     x0, =data_start
    ldr     x1, =data_end
    ldr     x2, =data_load
1:  cmp     x0, x1
    b.hs    2f
    ldp     x3, x4, [x2], #16
    stp     x3, x4, [x0], #16
    b       1b
2:  ldr     x0, =bss_start
    ldr     x1, =bss_end
3:  cmp     x0, x1
    b.hs    4f
    stp     xzr, xzr, [x0], #16
    b       3b
    // Paint the stack, to see later how deep it was.
4:  ldr     x0, =stack_end
    ldr     x1, =stack_start
    ldr     x2, =0xCCCCCCCCCCCCCCCC
5:  stp     x2, x2, [x0], #16
    cmp     x0, x1
    b.lo    5b
    mov     sp, x1
    bl      main
6:  wfe
    b       6b

// What is not expected is one exception, whatever its kind.
.balign 2048
vectors:
.rept 16
.balign 128
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    b       unexpected
.endr

// The tables lie in flash: nothing writes to them.
.section .rodata.tables, "a"
.balign 4096
// Blocks of 1 GiB.
level1:
    .quad   level2 + TABLE
    .quad   0x40000000 + RAM
    .fill   510, 8, 0
// Blocks of 2 MiB: the two flash devices of 64 MiB, and what the UART is in.
level2:
.set address, 0
.rept 32
    .quad   address + CODE
    .set    address, address + 0x200000
.endr
.rept 32
    .quad   address + CONST
    .set    address, address + 0x200000
.endr
    .fill   8, 8, 0
    .quad   0x09000000 + DEVICE
    .fill   439, 8, 0
