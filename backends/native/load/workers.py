"""Native code that shares out loops: the worker threads of a team, and the function that gives them work.

The caller of `fork` and those workers that come in time take turns from a loop, a few at a time. Each has a part of
the loop of its own and takes from the others' when that is done, so that nobody waits for a worker that sleeps.

A *gate* says what may be done: the number of the loop, whether it is open, and how many workers are inside. A worker
enters by adding one to an open gate; the caller closes it when no turn is left, and goes on when nobody is inside.
Workers look at the gate for a while, and then sleep until it is opened.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from circlet.backends.native.load.library import ENTRY

if TYPE_CHECKING:
    from circlet.backends.native.targets.target import Target

_TEXT = Template("""
target triple = "$triple"

; the function `fork`, participants, nanoseconds, the function `stop`; the gate; the loop: part, context, scratch memory
; of the caller, from one participant's to the next one's, how many turns are taken at a time; sleepers, whether to
; stop; a mutex and a condition of the system's; what is shared out
%Team = type { ptr, i64, i64, ptr, [96 x i8], i64, [120 x i8], ptr, ptr, ptr, i64, i64, [88 x i8],
               i64, i64, [112 x i8], [128 x i8], [128 x i8], [0 x %Share] }
; of a participant: the next turn and the end of its part of the loop, the team, its number, its thread
%Share = type { i64, i64, ptr, i64, i64, [88 x i8] }

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
$pause_declared

define internal i64 @now() {
  %time = alloca { i64, i64 }
  call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %found = add i64 %whole, %rest
  ret i64 %found
}

define internal void @rouse(ptr %team) {
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 16
  %condition = getelementptr %Team, ptr %team, i64 0, i32 17
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; takes turns of the open loop until there are none
define internal void @work(ptr %team, i64 %number) {
entry:
  %count.at = getelementptr %Team, ptr %team, i64 0, i32 1
  %count = load i64, ptr %count.at
  %part.at = getelementptr %Team, ptr %team, i64 0, i32 7
  %part = load ptr, ptr %part.at
  %context.at = getelementptr %Team, ptr %team, i64 0, i32 8
  %context = load ptr, ptr %context.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 9
  %scratch = load ptr, ptr %scratch.at
  %step.at = getelementptr %Team, ptr %team, i64 0, i32 10
  %step = load i64, ptr %step.at
  %few.at = getelementptr %Team, ptr %team, i64 0, i32 11
  %few = load i64, ptr %few.at
  %offset = mul i64 %number, %step
  %mine = getelementptr i8, ptr %scratch, i64 %offset
  br label %whose
whose:
  %k = phi i64 [ 0, %entry ], [ %k.next, %none ]
  %sum = add i64 %number, %k
  %owner = urem i64 %sum, %count
  %share = getelementptr %Team, ptr %team, i64 0, i32 18, i64 %owner
  %end.at = getelementptr %Share, ptr %share, i64 0, i32 1
  %end = load i64, ptr %end.at
  br label %take
take:
  %begin = atomicrmw add ptr %share, i64 %few monotonic
  %is.there = icmp slt i64 %begin, %end
  br i1 %is.there, label %turns, label %none
turns:
  %after = add i64 %begin, %few
  %last = call i64 @llvm.smin.i64(i64 %after, i64 %end)
  call i32 %part(ptr %context, i64 %begin, i64 %last, ptr %mine, i64 %number)
  br label %take
none:
  %k.next = add i64 %k, 1
  %is.left = icmp ult i64 %k.next, %count
  br i1 %is.left, label %whose, label %done
done:
  ret void
}

define internal void @fork(ptr %team, ptr %part, ptr %context, i64 %turns, ptr %scratch, i64 %step, i64 %most) {
entry:
  %count.at = getelementptr %Team, ptr %team, i64 0, i32 1
  %count = load i64, ptr %count.at
  %pieces = mul i64 %count, $pieces
  %size = udiv i64 %turns, %pieces
  %some = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %few = call i64 @llvm.umin.i64(i64 %some, i64 %most)
  %part.at = getelementptr %Team, ptr %team, i64 0, i32 7
  store ptr %part, ptr %part.at
  %context.at = getelementptr %Team, ptr %team, i64 0, i32 8
  store ptr %context, ptr %context.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 9
  store ptr %scratch, ptr %scratch.at
  %step.at = getelementptr %Team, ptr %team, i64 0, i32 10
  store i64 %step, ptr %step.at
  %few.at = getelementptr %Team, ptr %team, i64 0, i32 11
  store i64 %few, ptr %few.at
  br label %deal
deal:
  %k = phi i64 [ 0, %entry ], [ %k.next, %deal ]
  %begin = phi i64 [ 0, %entry ], [ %end, %deal ]
  %k.next = add i64 %k, 1
  %product = mul i64 %k.next, %turns
  %end = udiv i64 %product, %count
  %share = getelementptr %Team, ptr %team, i64 0, i32 18, i64 %k
  store atomic i64 %begin, ptr %share monotonic, align 8
  %end.at = getelementptr %Share, ptr %share, i64 0, i32 1
  store i64 %end, ptr %end.at
  %is.left = icmp ult i64 %k.next, %count
  br i1 %is.left, label %deal, label %open
open:
  %gate = getelementptr %Team, ptr %team, i64 0, i32 5
  %closed = load atomic i64, ptr %gate monotonic, align 8
  %opened = add i64 %closed, 196608
  %was = atomicrmw xchg ptr %gate, i64 %opened seq_cst
  %sleepers.at = getelementptr %Team, ptr %team, i64 0, i32 13
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %is.awake = icmp eq i64 %sleepers, 0
  br i1 %is.awake, label %begin.work, label %wake
wake:
  call void @rouse(ptr %team)
  br label %begin.work
begin.work:
  call void @work(ptr %team, i64 0)
  atomicrmw sub ptr %gate, i64 65536 acq_rel
  br label %wait
wait:
  %turn = phi i64 [ 0, %begin.work ], [ %turn.next, %goes.on ]
  %now = load atomic i64, ptr %gate acquire, align 8
  %inside = and i64 %now, 65535
  %is.empty = icmp eq i64 %inside, 0
  br i1 %is.empty, label %done, label %longer
longer:
  %turn.next = add i64 %turn, 1
  %is.soon = icmp ult i64 %turn, 512
  br i1 %is.soon, label %spin, label %yield
spin:
  $pause
  br label %goes.on
yield:
  call i32 @sched_yield()
  br label %goes.on
goes.on:
  br label %wait
done:
  ret void
}

define internal ptr @worker(ptr %share) {
entry:
  %team.at = getelementptr %Share, ptr %share, i64 0, i32 2
  %team = load ptr, ptr %team.at
  %number.at = getelementptr %Share, ptr %share, i64 0, i32 3
  %number = load i64, ptr %number.at
  %spin.time.at = getelementptr %Team, ptr %team, i64 0, i32 2
  %spin.time = load i64, ptr %spin.time.at
  %gate = getelementptr %Team, ptr %team, i64 0, i32 5
  %sleepers = getelementptr %Team, ptr %team, i64 0, i32 13
  %stop.at = getelementptr %Team, ptr %team, i64 0, i32 14
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 16
  %condition = getelementptr %Team, ptr %team, i64 0, i32 17
  %born = call i64 @now()
  br label %look
look:
  %known = phi i64 [ 0, %entry ], [ %known, %goes.on ], [ %known, %enter ], [ %loop, %inside ], [ %known, %awake ]
  %since = phi i64 [ %born, %entry ], [ %since, %goes.on ], [ %since, %enter ], [ %left, %inside ], [ %woken, %awake ]
  %idle = phi i64 [ 1, %entry ], [ %idle.next, %goes.on ], [ %idle, %enter ], [ 0, %inside ], [ 1, %awake ]
  %state = load atomic i64, ptr %gate acquire, align 8
  %loop = lshr i64 %state, 17
  %open = and i64 %state, 65536
  %is.open = icmp ne i64 %open, 0
  %is.new = icmp ne i64 %loop, %known
  %may.enter = and i1 %is.open, %is.new
  br i1 %may.enter, label %enter, label %rest
enter:
  %one.more = add i64 %state, 1
  %exchange = cmpxchg ptr %gate, i64 %state, i64 %one.more acq_rel monotonic
  %has.entered = extractvalue { i64, i1 } %exchange, 1
  br i1 %has.entered, label %inside, label %look
inside:
  call void @work(ptr %team, i64 %number)
  atomicrmw sub ptr %gate, i64 1 release
  %left = call i64 @now()
  br label %look
rest:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %is.over = icmp ne i64 %stop, 0
  br i1 %is.over, label %leave, label %stay
stay:
  %idle.next = add i64 %idle, 1
  %some = and i64 %idle.next, 63
  %asks = icmp eq i64 %some, 0
  br i1 %asks, label %ask, label %spin
ask:
  %now = call i64 @now()
  %passed = sub i64 %now, %since
  %is.tired = icmp sgt i64 %passed, %spin.time
  br i1 %is.tired, label %tired, label %spin
spin:
  $pause
  br label %goes.on
goes.on:
  br label %look
tired:
  call i32 @pthread_mutex_lock(ptr %mutex)
  atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %asleep
asleep:
  %state.now = load atomic i64, ptr %gate seq_cst, align 8
  %loop.now = lshr i64 %state.now, 17
  %is.same = icmp eq i64 %loop.now, %loop
  %stop.now = load atomic i64, ptr %stop.at seq_cst, align 8
  %goes.on.now = icmp eq i64 %stop.now, 0
  %sleeps = and i1 %is.same, %goes.on.now
  br i1 %sleeps, label %sleep, label %awake
sleep:
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %asleep
awake:
  atomicrmw sub ptr %sleepers, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %mutex)
  %woken = call i64 @now()
  br label %look
leave:
  ret ptr null
}

define i64 @$start(ptr %team, i64 %wanted, i64 %spin.time) {
entry:
  store ptr @fork, ptr %team
  %spin.time.at = getelementptr %Team, ptr %team, i64 0, i32 2
  store i64 %spin.time, ptr %spin.time.at
  %stop.at = getelementptr %Team, ptr %team, i64 0, i32 3
  store ptr @stop, ptr %stop.at
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 16
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %condition = getelementptr %Team, ptr %team, i64 0, i32 17
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  br label %next
next:
  %k = phi i64 [ 1, %entry ], [ %k.next, %begun ]
  %is.left = icmp slt i64 %k, %wanted
  br i1 %is.left, label %begin, label %done
begin:
  %share = getelementptr %Team, ptr %team, i64 0, i32 18, i64 %k
  %team.at = getelementptr %Share, ptr %share, i64 0, i32 2
  store ptr %team, ptr %team.at
  %number.at = getelementptr %Share, ptr %share, i64 0, i32 3
  store i64 %k, ptr %number.at
  %thread.at = getelementptr %Share, ptr %share, i64 0, i32 4
  %error = call i32 @pthread_create(ptr %thread.at, ptr null, ptr @worker, ptr %share)
  %has.begun = icmp eq i32 %error, 0
  br i1 %has.begun, label %begun, label %done
begun:
  %k.next = add i64 %k, 1
  br label %next
done:
  %count = phi i64 [ %k, %next ], [ %k, %begin ]
  %count.at = getelementptr %Team, ptr %team, i64 0, i32 1
  store i64 %count, ptr %count.at
  ret i64 %count
}

define internal void @stop(ptr %team) {
entry:
  %stop.at = getelementptr %Team, ptr %team, i64 0, i32 14
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  call void @rouse(ptr %team)
  %count.at = getelementptr %Team, ptr %team, i64 0, i32 1
  %count = load i64, ptr %count.at
  br label %next
next:
  %k = phi i64 [ 1, %entry ], [ %k.next, %join ]
  %is.left = icmp slt i64 %k, %count
  br i1 %is.left, label %join, label %done
join:
  %thread.at = getelementptr %Team, ptr %team, i64 0, i32 18, i64 %k, i32 4
  %thread = load i64, ptr %thread.at
  call i32 @pthread_join(i64 %thread, ptr null)
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}
""")
"""The module, in LLVM's language; the types in it say what lies where, in as many bytes as `team.py` takes."""
_PIECES = 4
"""How often a participant takes turns from its part of a loop, if nobody takes from it: a choice between even shares
and atomic additions."""


def team_module(target: Target, clock: int) -> str:
    """The module of `i64 start(team, participants, nanoseconds)`, its entry.

    It starts the workers of a team, whose memory is zero; tells how many participants there are, the caller among
    them, and lets workers look for work so long before they sleep.

    Args:
        target: the machine.
        clock: the system's number of a clock that is never set.
    """
    declared, pause = target.pause
    return _TEXT.substitute(triple=target.triple, clock=clock, pieces=_PIECES, start=ENTRY, pause=pause,
                            pause_declared=declared)
