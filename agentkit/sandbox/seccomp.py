"""Seccomp filters for system calls."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The kernel's architecture number of each supported machine, and its column in the tables."""

_ALLOWED_IN_PYTHON = """
read 0 63  write 1 64  readv 19 65  writev 20 66  pread64 17 67  pwrite64 18 68  open 2 -  openat 257 56  close 3 57
close_range 436 436  stat 4 -  fstat 5 80  lstat 6 -  newfstatat 262 79  statx 332 291  access 21 -  faccessat 269 48
faccessat2 439 439  lseek 8 62  getdents 78 -  getdents64 217 61  getcwd 79 17  readlink 89 -  readlinkat 267 78
fcntl 72 25  ioctl 16 29  dup 32 23  dup2 33 -  dup3 292 24  pipe 22 -  pipe2 293 59  poll 7 -  ppoll 271 73
select 23 -  pselect6 270 72  mmap 9 222  mprotect 10 226  munmap 11 215  mremap 25 216  brk 12 214  madvise 28 233
rt_sigaction 13 134  rt_sigprocmask 14 135  rt_sigreturn 15 139  sigaltstack 131 132  futex 202 98
set_robust_list 273 99  get_robust_list 274 100  rseq 334 293  restart_syscall 219 128  membarrier 324 283
getrandom 318 278  uname 63 160  sysinfo 99 179  getpid 39 172  getppid 110 173  gettid 186 178  getuid 102 174
geteuid 107 175  getgid 104 176  getegid 108 177  getresuid 118 148  getresgid 120 150  getgroups 115 158
getpgrp 111 -  umask 95 166  times 100 153  getrusage 98 165  getrlimit 97 163  getcpu 309 168  sched_yield 24 124
time 201 -  gettimeofday 96 169  clock_gettime 228 113  clock_getres 229 114  clock_nanosleep 230 115
nanosleep 35 101  exit 60 93  exit_group 231 94  mkdir 83 -  mkdirat 258 34  unlink 87 -  unlinkat 263 35
rmdir 84 -  rename 82 -  renameat 264 38  renameat2 316 276  ftruncate 77 46  fsync 74 82
fdatasync 75 83  chdir 80 49  statfs 137 43  fstatfs 138 44  alarm 37 -  arch_prctl 158 -  set_tid_address 218 96
"""
"""System calls that a Python process needs to compute and print. All others are refused: sockets, processes, threads,
signals to others, mounts, changes of owner, mode, times or limits."""

_DENIED_IN_SHELL = """
mount 165 40  umount2 166 39  pivot_root 155 41  chroot 161 51  unshare 272 97  setns 308 268  open_tree 428 428
move_mount 429 429  fsopen 430 430  fsconfig 431 431  fsmount 432 432  fspick 433 433  mount_setattr 442 442
ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271  process_madvise 440 440  kcmp 312 272
pidfd_getfd 438 438  io_uring_setup 425 425  io_uring_enter 426 426  io_uring_register 427 427  bpf 321 280
perf_event_open 298 241  userfaultfd 323 282  keyctl 250 219  add_key 248 217  request_key 249 218
init_module 175 105  finit_module 313 273  delete_module 176 106  kexec_load 246 104  kexec_file_load 320 294
reboot 169 142  swapon 167 224  swapoff 168 225  acct 163 89  quotactl 179 60  quotactl_fd 443 443
settimeofday 164 170  clock_settime 227 112  clock_adjtime 305 266  adjtimex 159 171  sethostname 170 161
setdomainname 171 162  syslog 103 116  vhangup 153 58  iopl 172 -  ioperm 173 -  nfsservctl 180 42
lookup_dcookie 212 18  open_by_handle_at 304 265  name_to_handle_at 303 264  fanotify_init 300 262
migrate_pages 256 238  move_pages 279 239  personality 135 92  modify_ldt 154 -  memfd_secret 447 447
"""
"""System calls that commands do not need, but an escape from the sandbox might."""

_SOCKET, _CLONE, _CLONE3, _IOCTL = "socket 41 198", "clone 56 220", "clone3 435 435", "ioctl 16 29"
_NEW_NAMESPACES = 0x7E02_0000
_TERMINAL_INJECTION = (0x5412, 0x541C)
INTERNET = (2, 10, 16)
"""The socket families for IPv4, IPv6 and netlink (routes), without Unix sockets, on which services listen."""

_ALLOW, _KILL, _ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_X32 = 0x4000_0000


def python_filter(machine: str) -> bytes:
    """A filter that allows only the calls that computing in Python needs; others fail with EPERM."""
    steps = (step for number in _call_numbers(_ALLOWED_IN_PYTHON, machine) for step in _action_for(number, _ALLOW))
    return _program(machine, (*steps, _return_step(_ERROR | errno.EPERM)))


def shell_filter(machine: str, families: Iterable[int] = INTERNET) -> bytes:
    """A filter for ordinary commands, which may open sockets of these families only."""
    denied = _ERROR | errno.EPERM
    steps = [step for number in _call_numbers(_DENIED_IN_SHELL, machine) for step in _action_for(number, denied)]
    steps += _action_for(
        _call_number(_CLONE3, machine), _ERROR | errno.ENOSYS
    )  # its flags lie in memory: libraries use clone then
    steps += _check_argument(
        _call_number(_CLONE, machine),
        _FIRST_ARGUMENT,
        [(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _return_step(denied)],
        _ALLOW,
    )
    injections = [step for request in _TERMINAL_INJECTION for step in _action_for(request, denied)]
    steps += _check_argument(_call_number(_IOCTL, machine), _SECOND_ARGUMENT, injections, _ALLOW)
    allowed = [step for family in families for step in _action_for(family, _ALLOW)]
    steps += _check_argument(_call_number(_SOCKET, machine), _FIRST_ARGUMENT, allowed, denied)
    return _program(machine, (*steps, _return_step(_ALLOW)))


_Step = tuple[int, int, int, int]
"""An instruction: code, operand, number to skip if true, number to skip if false."""


def _program(machine: str, steps: Iterable[_Step]) -> bytes:
    """Prepend a check that the call uses the machine's native calling convention."""
    architecture = MACHINES[machine][0]
    guard = [
        (_LOAD, _ARCHITECTURE, 0, 0),
        (_EQUAL, architecture, 1, 0),
        _return_step(_KILL),
        (_LOAD, _NUMBER, 0, 0),
        (_AT_LEAST, _X32, 0, 1),
        _return_step(_ERROR | errno.EPERM),
    ]
    return b"".join(struct.pack("=HBBI", code, yes, no, operand) for code, operand, yes, no in (*guard, *steps))


def _call_numbers(table: str, machine: str) -> list[int]:
    """The system call numbers of a table for one architecture; a dash is a call that it does not have."""
    column = MACHINES[machine][1]
    words = table.split()
    return [int(word) for word in words[1 + column :: 3] if word != "-"]


def _call_number(row: str, machine: str) -> int:
    return _call_numbers(row, machine)[0]


def _return_step(action: int) -> _Step:
    return (_RETURN, action, 0, 0)


def _action_for(value: int, action: int) -> list[_Step]:
    return [(_EQUAL, value, 0, 1), _return_step(action)]


def _check_argument(number: int, argument: int, checks: list[_Step], otherwise: int) -> list[_Step]:
    """Check an argument of one call; its upper half is ignored, as in the kernel."""
    body = [(_LOAD, argument, 0, 0), *checks, _return_step(otherwise)]
    return [(_EQUAL, number, 0, len(body)), *body]
