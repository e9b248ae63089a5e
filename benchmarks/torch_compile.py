"""torch.compile within a budget of time, and the reason where there is nothing to time."""
import contextlib
import re
import signal
import time

import torch

# What autotuning (Triton's own products against the library's) is tried on; it takes 10 to 30 s a row.
AUTOTUNED = re.compile(r"matmul/(linear_|(1|8|32)x4096x4096$|4096x4096x1$|256x256x256$|2048x2048x2048$|1000x999x1001$)")
ELSEWHERE = ("autotuning takes 10 to 30 s and is tried on layers, plain products of 1 to 256 rows or one column, "
             "2048×2048×2048 and 1000×999×1001")


class OverBudget(BaseException):
    """Not an Exception, which the compiler would catch on its way."""


@contextlib.contextmanager
def within(seconds):
    def stop(_signal, _frame):
        raise OverBudget
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def library_calls(sources):
    """The library's functions that generated code calls, or None when it has kernels of its own."""
    text = "\n".join(sources)
    if not sources or re.search(r"async_compile\.(triton|cpp|cuda|multi_kernel)|@triton", text):
        return None
    return sorted(set(re.findall(r"extern_kernels\.(\w+)", text)))


class Compiler:
    def __init__(self, seconds, autotune_seconds):
        """Budgets: of a row, and of all rows together for autotuning."""
        self.seconds, self.autotune_seconds, self.autotune_left = seconds, autotune_seconds, autotune_seconds

    def compile(self, make, autotune=False):
        """`make(change)` returns a program without arguments, part of which `change` has compiled. (program, "") after
        its first call, or (None, why not)."""
        if not hasattr(torch, "compile"):
            return None, f"PyTorch {torch.__version__} has no torch.compile, which came with 2.0"
        budget = min(self.seconds, self.autotune_left) if autotune else self.seconds
        if budget <= 0:
            return None, f"autotuning has used up its {self.autotune_seconds:g} s of this run"
        mode = "max-autotune-no-cudagraphs" if autotune else "default"
        torch._dynamo.reset()
        start = time.perf_counter()
        try:
            from torch._inductor.utils import run_and_get_code
            with within(budget):
                program = make(lambda f: torch.compile(f, dynamic=False, mode=mode))
                _, sources = run_and_get_code(program)
        except OverBudget:
            torch._dynamo.reset()
            return None, f"compiling takes more than {budget:.0f} s"
        except Exception as error:  # it raises what it likes
            torch._dynamo.reset()
            first = (str(error).strip() or "no message").splitlines()[0]
            return None, f"{type(error).__name__}: {first[:120]}"
        finally:
            if autotune:
                self.autotune_left -= time.perf_counter() - start
        calls = library_calls(sources)
        if calls:
            return None, f"compiled it is the library's call as before ({', '.join(calls)})"
        return program, ""
