"""circlet runs, profiles and compiles models that branch and loop.

What runs models whose code was kept on the disk is imported with the package, where code can be made at all, so that
the first run need not wait for it; what any other name stands for is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlet import compiled as compiled
    from circlet import interpreter as interpreter
    from circlet import network as network
    from circlet.conversion import convert
    from circlet.files import load, save
    from circlet.interpreter import Interpreter
    from circlet.network import LoopOutput, Network, TripLimit
    from circlet.profiling.profile import Profile
    from circlet.profiling.profiler import profile
    from circlet.runtime.errors import (
        CancelledError,
        CircletError,
        ClosedError,
        ExecutionError,
        InputError,
        LimitError,
        ModelError,
        UnsupportedError,
    )
    from circlet.runtime.exec.limits import Limits
    from circlet.runtime.exec.observe.breakpoints import Breakpoint
    from circlet.runtime.exec.observe.debugger import Debugger, Resume, Stop
    from circlet.runtime.exec.observe.listener import Counter, Listener
    from circlet.runtime.exec.observe.moment import Moment
    from circlet.runtime.exec.observe.non_finite import NanGuard
    from circlet.runtime.exec.observe.value_recorder import ValueRecorder
    from circlet.runtime.exec.signature_runner import SignatureRunner
    from circlet.runtime.exec.values.tensor_info import TensorInfo
    from circlet.runtime.ir.builder import ModelBuilder
    from circlet.runtime.ir.model import Model
    from circlet.session import Session

    __version__: str
else:
    import sys
    from os.path import basename, splitext

    from circlet.runtime.late import imported

    _HOMES = {name: home for home, names in {
        "conversion": "convert",
        "files": "load save",
        "interpreter": "Interpreter",
        "network": "LoopOutput Network TripLimit",
        "profiling.profile": "Profile",
        "profiling.profiler": "profile",
        "runtime.errors": "CancelledError CircletError ClosedError ExecutionError InputError LimitError ModelError "
                          "UnsupportedError",
        "runtime.exec.limits": "Limits",
        "runtime.exec.observe.breakpoints": "Breakpoint",
        "runtime.exec.observe.debugger": "Debugger Resume Stop",
        "runtime.exec.observe.listener": "Counter Listener",
        "runtime.exec.observe.moment": "Moment",
        "runtime.exec.observe.non_finite": "NanGuard",
        "runtime.exec.observe.value_recorder": "ValueRecorder",
        "runtime.exec.values.tensor_info": "TensorInfo",
        "runtime.ir.builder": "ModelBuilder",
        "runtime.ir.model": "Model",
        "runtime.exec.signature_runner": "SignatureRunner",
        "session": "Session",
    }.items() for name in names.split()}
    """The module of each public name."""
    _MODULES = ("compiled", "interpreter", "network")

    def _is_program():
        """Whether this process is the `circlet` program, of which each command imports what it needs."""
        return (splitext(basename("".join(sys.argv[:1])))[0] == "circlet"
                or sys.orig_argv[1:3] == ["-m", "circlet"])

    def __getattr__(name):
        if name == "__version__":
            from circlet.version import VERSION

            found = VERSION
        elif name in _HOMES:
            found = getattr(imported(f"circlet.{_HOMES[name]}"), name)
        elif name in _MODULES:
            found = imported(f"circlet.{name}")
        else:
            raise AttributeError(f"module 'circlet' has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})

    if not _is_program():
        imported("circlet.ready").get_ready()
        for _name, _home in _HOMES.items():
            if f"circlet.{_home}" in sys.modules:
                __getattr__(_name)

__all__ = [
    "Breakpoint",
    "CancelledError",
    "CircletError",
    "ClosedError",
    "Counter",
    "Debugger",
    "ExecutionError",
    "InputError",
    "Interpreter",
    "LimitError",
    "Limits",
    "Listener",
    "LoopOutput",
    "Model",
    "ModelBuilder",
    "ModelError",
    "Moment",
    "NanGuard",
    "Network",
    "Profile",
    "Resume",
    "Session",
    "SignatureRunner",
    "Stop",
    "TensorInfo",
    "TripLimit",
    "UnsupportedError",
    "ValueRecorder",
    "convert",
    "load",
    "profile",
    "save",
]
