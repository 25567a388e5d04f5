"""Tests for the seccomp filters, with an interpreter of BPF programs."""

import errno
import struct

import pytest

from agentkit.sandbox import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSED, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
X86, ARM = 0xC000003E, 0xC00000B7


def judge(program, number, arguments=(), architecture=X86):
    """Return the filter's verdict for a system call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", program))
    place = accumulator = 0
    while True:
        code, yes, no, operand = steps[place]
        place += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
            place += yes if holds[code] else no


@pytest.mark.for_each("number", [0, 1, 3, 9, 11, 12, 202, 228, 231, 257, 318])
def test_python_can_compute_and_print(number):
    """The filter allows Python to read, write, open files, map memory, read the clock and exit."""
    assert judge(seccomp.python_filter("x86_64"), number) == ALLOW


@pytest.mark.for_each(
    "number",
    [
        *(41, 42, 49, 53, 56, 57, 58, 59, 62, 76, 90, 92, 101, 105, 132, 155, 160, 161, 165, 188, 200, 234, 235, 250),
        *(260, 268, 272, 280, 298, 302, 304, 308, 310, 319, 321, 322, 323, 424, 425, 434, 435, 442, 452, 9999),
    ],
)
def test_python_cannot_do_anything_else(number):
    """Sockets, processes, signals, changes of owner, mode or limits, and unknown system calls are denied."""
    assert judge(seccomp.python_filter("x86_64"), number) == REFUSED


@pytest.mark.for_each("number", [56, 57, 59, 62, 90, 92, 272 - 10, 61, 435 - 200])
def test_commands_can_start_programs(number):
    """A command can start programs, send them signals, and change the files it may write."""
    assert judge(seccomp.shell_filter("x86_64"), number) == ALLOW


@pytest.mark.for_each("number", [101, 155, 161, 165, 166, 250, 272, 298, 304, 308, 310, 321, 323, 425, 426, 442])
def test_commands_cannot_access_kernel_features(number):
    """Mounts, namespaces, tracing, io_uring, BPF and keys are denied to commands."""
    assert judge(seccomp.shell_filter("x86_64"), number) == REFUSED


@pytest.mark.parametrize(
    ("families", "family", "verdict"),
    [
        (seccomp.INTERNET, 2, ALLOW),
        (seccomp.INTERNET, 10, ALLOW),
        (seccomp.INTERNET, 1, REFUSED),
        (seccomp.INTERNET, 17, REFUSED),
        (seccomp.INTERNET, 40, REFUSED),
        ((), 2, REFUSED),
        ((), 1, REFUSED),
    ],
)
def test_commands_can_open_sockets_of_some_families(families, family, verdict):
    """A command can open sockets of the given families, but no Unix sockets."""
    assert judge(seccomp.shell_filter("x86_64", families), 41, [family]) == verdict


@pytest.mark.parametrize(("flags", "verdict"), [(0x11, ALLOW), (0x10000000 | 0x11, REFUSED), (0x20000, REFUSED)])
def test_commands_cannot_create_namespaces(flags, verdict):
    """A new process is allowed, and one in new namespaces is denied."""
    assert judge(seccomp.shell_filter("x86_64"), 56, [flags]) == verdict


def test_clone3_is_reported_as_missing():
    """A call whose flags the filter cannot read is reported as missing, so that libraries use the older one."""
    assert judge(seccomp.shell_filter("x86_64"), 435) == UNKNOWN


@pytest.mark.parametrize(("request_number", "verdict"), [(0x5401, ALLOW), (0x5412, REFUSED), (0x541C, REFUSED)])
def test_commands_cannot_inject_terminal_input(request_number, verdict):
    """Input cannot be injected into a terminal."""
    assert judge(seccomp.shell_filter("x86_64"), 16, [3, request_number]) == verdict


@pytest.mark.parametrize("program", [seccomp.python_filter("x86_64"), seccomp.shell_filter("x86_64")])
def test_calls_of_other_architectures_are_denied(program):
    """A call of another architecture kills the process, and one of x32 is denied."""
    assert judge(program, 3, architecture=0x40000003) == KILL
    assert judge(program, 0x40000000 | 41) == REFUSED


@pytest.mark.parametrize(
    ("number", "verdict"), [(64, ALLOW), (63, ALLOW), (198, REFUSED), (220, REFUSED), (221, REFUSED)]
)
def test_arm_uses_its_own_call_numbers(number, verdict):
    """On 64-bit ARM, the filter uses that architecture's system call numbers."""
    assert judge(seccomp.python_filter("aarch64"), number, architecture=ARM) == verdict
