//! The program of ../main.c in Rust: rustc main.rs -C link-arg=build/collatz.o && ./main 27
use std::ffi::c_void;

#[repr(C)]
struct Inputs {
    n: *const i32,
}

#[repr(C)]
struct Outputs {
    steps: *mut i32,
    peak: *mut i32,
}

/// The words at the beginning of the state; COLLATZ_STATE_BYTES is no more.
#[repr(C, align(64))]
#[derive(Default)]
struct State {
    stop: u32,
    iterations: u32,
}

extern "C" {
    fn collatz_init(state: *mut c_void);
    fn collatz_run(inputs: *const Inputs, outputs: *const Outputs, arena: *mut c_void, state: *mut c_void) -> i32;
}

fn collatz(n: i32, state: &mut State) -> Result<(i32, i32), i32> {
    let (mut steps, mut peak) = (0, 0);
    let inputs = Inputs { n: &n };
    let outputs = Outputs { steps: &mut steps, peak: &mut peak };
    let status = unsafe {
        collatz_run(&inputs, &outputs, std::ptr::null_mut(), state as *mut State as *mut c_void)
    };
    if status == 0 { Ok((steps, peak)) } else { Err(status) }
}

fn main() {
    let n = std::env::args().nth(1).map_or(27, |each| each.parse().expect("an integer"));
    let mut state = State::default();
    unsafe { collatz_init(&mut state as *mut State as *mut c_void) };
    state.iterations = 1000;
    match collatz(n, &mut state) {
        Ok((steps, peak)) => println!("{n}: {steps} steps, up to {peak}"),
        Err(status) => {
            eprintln!("status {status}, stop {}", state.stop);
            std::process::exit(1);
        }
    }
}
