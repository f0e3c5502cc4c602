//! From a table of calls to a seccomp program, and its installation.
//!
//! Only registers are judged, and only their low halves: every judged parameter is an `int` or a
//! flag word whose high half the kernel ignores.

use std::{io, os::fd::OwnedFd};

use seccompiler::{apply_filter, sock_filter};

use crate::sys;

/// What a filter answers to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It goes on.
    Allow,
    /// Refused with an errno.
    Refuse(i32),
    /// Held until the supervisor has answered it.
    Hold,
    /// The process is killed: the call can only mean a takeover.
    Kill,
}

impl Answer {
    fn code(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Refuse(errno) => {
                libc::SECCOMP_RET_ERRNO | (errno.unsigned_abs() & libc::SECCOMP_RET_DATA)
            }
            Self::Hold => libc::SECCOMP_RET_USER_NOTIF,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// A test of one register: `(argument & mask) == value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) argument: u8,
    pub(crate) mask: u32,
    pub(crate) value: u32,
}

/// Argument number `argument` equals `value`.
pub(crate) fn equals(argument: u8, value: i32) -> Test {
    Test {
        argument,
        mask: u32::MAX,
        value: value.cast_unsigned(),
    }
}

/// Argument number `argument`, masked, equals `value`.
pub(crate) fn masked(argument: u8, mask: i32, value: i32) -> Test {
    Test {
        argument,
        mask: mask.cast_unsigned(),
        value: value.cast_unsigned(),
    }
}

/// One call: the first clause whose tests all hold answers, else `otherwise`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: i64,
    pub(crate) clauses: Vec<(Vec<Test>, Answer)>,
    pub(crate) otherwise: Answer,
}

impl Rule {
    /// Always the same answer.
    pub(crate) fn plain(number: i64, otherwise: Answer) -> Self {
        Self {
            number,
            clauses: Vec::new(),
            otherwise,
        }
    }

    /// By registers.
    pub(crate) fn judged(
        number: i64,
        clauses: Vec<(Vec<Test>, Answer)>,
        otherwise: Answer,
    ) -> Self {
        Self {
            number,
            clauses,
            otherwise,
        }
    }

    /// Whether it is about this call.
    pub(crate) fn is_for(&self, number: i64) -> bool {
        self.number == number
    }

    /// The call's number.
    pub(crate) fn number(&self) -> i64 {
        self.number
    }
}

/// A whole filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The calls that have an answer of their own.
    pub(crate) rules: Vec<Rule>,
    /// Numbers above it were unknown when the tables were written.
    pub(crate) newest: u32,
    /// The answer to those.
    pub(crate) unknown: Answer,
    /// The answer to every other call.
    pub(crate) otherwise: Answer,
}

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Set in the numbers of the x32 calls, which are the same calls by another door.
const X32: u32 = 0x4000_0000;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// The low half of an argument, on the little-endian machines that we know.
const OFFSET_ARGUMENTS: u32 = 16;

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips one instruction unless `code` holds for `k`.
fn when(code: u16, k: u32, skip: u8) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: skip,
        k,
    }
}

/// Why a table is not a program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterFailure {
    /// A row does not fit the program.
    #[error("the row of call {0} does not fit a seccomp program")]
    Row(i64),
    /// The kernel does not take it.
    #[error("the kernel refuses the filter: {0}")]
    Kernel(io::Error),
}

/// Compiles a filter.
pub(crate) fn compile(filter: &Filter) -> Result<Vec<sock_filter>, FilterFailure> {
    let mut program = vec![
        step(LOAD, OFFSET_ARCH),
        when(JUMP_EQUAL, ARCH, 1),
        // Equal: over the kill.
        step(JUMP, 1),
        step(RETURN, Answer::Kill.code()),
        step(LOAD, OFFSET_NUMBER),
        when(JUMP_SET, X32, 1),
        step(RETURN, Answer::Kill.code()),
    ];
    search(&stretches(filter)?, &mut program)?;
    Ok(program)
}

/// What answers a stretch of call numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way<'a> {
    /// Always the same.
    Plain(Answer),
    /// One call, by its registers.
    Judged(&'a Rule),
}

/// All numbers in order, as stretches with one answer: each begins where the one before ends.
fn stretches(filter: &Filter) -> Result<Vec<(u32, Way<'_>)>, FilterFailure> {
    let mut rules: Vec<&Rule> = filter.rules.iter().collect();
    rules.sort_by_key(|rule| rule.number);
    let mut found: Vec<(u32, Way<'_>)> = Vec::new();
    let mut add = |from, way| {
        if found.last().is_none_or(|(_, last)| *last != way) {
            found.push((from, way));
        }
    };
    let mut next = 0;
    for rule in rules {
        let number = u32::try_from(rule.number).map_err(|_| FilterFailure::Row(rule.number))?;
        if number < next || number > filter.newest {
            // Listed twice, or newer than the table says.
            return Err(FilterFailure::Row(rule.number));
        }
        if number > next {
            add(next, Way::Plain(filter.otherwise));
        }
        let plain = rule.clauses.is_empty();
        add(
            number,
            if plain {
                Way::Plain(rule.otherwise)
            } else {
                Way::Judged(rule)
            },
        );
        next = number.saturating_add(1);
    }
    if next <= filter.newest {
        add(next, Way::Plain(filter.otherwise));
    }
    add(filter.newest.saturating_add(1), Way::Plain(filter.unknown));
    Ok(found)
}

/// A binary search over the stretches, with the number loaded. The kernel runs the program for every
/// call that there is when it is installed, and compiles each instruction: short pays at each start.
fn search(
    stretches: &[(u32, Way<'_>)],
    program: &mut Vec<sock_filter>,
) -> Result<(), FilterFailure> {
    let (left, right) = stretches.split_at(stretches.len() / 2);
    let Some((from, way)) = right.first() else {
        return Ok(());
    };
    if left.is_empty() {
        match way {
            Way::Plain(answer) => program.push(step(RETURN, answer.code())),
            Way::Judged(rule) => judge(rule, program)?,
        }
        return Ok(());
    }
    let mut lower = Vec::new();
    search(left, &mut lower)?;
    if let Ok(over) = u8::try_from(lower.len()) {
        program.push(sock_filter {
            code: JUMP_AT_LEAST,
            jt: over,
            jf: 0,
            k: *from,
        });
    } else {
        // The conditional jump reaches only 255 instructions; the plain one reaches any.
        program.push(when(JUMP_AT_LEAST, *from, 1));
        let over = u32::try_from(lower.len()).map_err(|_| FilterFailure::Row((*from).into()))?;
        program.push(step(JUMP, over));
    }
    program.append(&mut lower);
    search(right, program)
}

/// One rule's clauses in order; each way through ends with a return.
fn judge(rule: &Rule, program: &mut Vec<sock_filter>) -> Result<(), FilterFailure> {
    for (tests, answer) in &rule.clauses {
        let length = |test: &Test| if test.mask == u32::MAX { 2_usize } else { 3 };
        let mut rest: usize = tests.iter().map(length).sum::<usize>() + 1;
        for test in tests {
            program.push(step(LOAD, OFFSET_ARGUMENTS + 8 * u32::from(test.argument)));
            if test.mask != u32::MAX {
                program.push(step(AND, test.mask));
            }
            rest -= length(test);
            let skip = u8::try_from(rest).map_err(|_| FilterFailure::Row(rule.number))?;
            program.push(when(JUMP_EQUAL, test.value, skip));
        }
        program.push(step(RETURN, answer.code()));
    }
    program.push(step(RETURN, rule.otherwise.code()));
    Ok(())
}

/// Compiles and installs, for this thread and everything it will start; for ever.
pub(crate) fn install(filter: &Filter) -> Result<(), FilterFailure> {
    apply_filter(&compile(filter)?)
        .map_err(|error| FilterFailure::Kernel(io::Error::other(error.to_string())))
}

/// Compiles and installs a filter that holds calls, and gives the listener on which they are told.
pub(crate) fn listen(filter: &Filter) -> Result<OwnedFd, FilterFailure> {
    sys::listen_to_filter(&compile(filter)?).map_err(FilterFailure::Kernel)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    pub(crate) fn run(program: &[sock_filter], arch: u32, number: u32, args: [u32; 6]) -> u32 {
        let (mut at, mut held) = (0_usize, 0_u32);
        for _ in 0..program.len() {
            let sock_filter { code, jt, jf, k } = program[at].clone();
            at += 1;
            let go = |yes: bool| usize::from(if yes { jt } else { jf });
            match code {
                LOAD => {
                    held = match k {
                        OFFSET_NUMBER => number,
                        OFFSET_ARCH => arch,
                        k => args[usize::try_from((k - OFFSET_ARGUMENTS) / 8).expect("small")],
                    }
                }
                AND => held &= k,
                JUMP_EQUAL => at += go(held == k),
                JUMP_SET => at += go(held & k != 0),
                JUMP_AT_LEAST => at += go(held >= k),
                JUMP => at += usize::try_from(k).expect("small"),
                RETURN => return k,
                other => panic!("instruction {other:#x}"),
            }
        }
        panic!("the program does not end")
    }

    /// What a filter answers to a native call.
    pub(crate) fn judge(filter: &Filter, number: i64, args: [i32; 6]) -> u32 {
        let program = compile(filter).expect("compiles");
        let number = u32::try_from(number).expect("a call number");
        run(&program, ARCH, number, args.map(i32::cast_unsigned))
    }

    fn sample() -> Filter {
        Filter {
            rules: vec![
                Rule::plain(7, Answer::Kill),
                Rule::judged(
                    9,
                    vec![
                        (vec![equals(0, 1), masked(1, 0xf, 2)], Answer::Allow),
                        (vec![equals(0, -1)], Answer::Refuse(5)),
                    ],
                    Answer::Refuse(1),
                ),
            ],
            newest: 400,
            unknown: Answer::Refuse(38),
            otherwise: Answer::Allow,
        }
    }

    #[test]
    fn rows_answer_by_number_and_by_registers() {
        let filter = sample();
        let errno = |number: u32| libc::SECCOMP_RET_ERRNO | number;
        assert_eq!(judge(&filter, 7, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
        assert_eq!(judge(&filter, 8, [0; 6]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(
            judge(&filter, 9, [1, 0xf2, 0, 0, 0, 0]),
            libc::SECCOMP_RET_ALLOW
        );
        assert_eq!(judge(&filter, 9, [1, 3, 0, 0, 0, 0]), errno(1));
        assert_eq!(judge(&filter, 9, [-1, 2, 0, 0, 0, 0]), errno(5));
        assert_eq!(judge(&filter, 400, [0; 6]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(judge(&filter, 401, [0; 6]), errno(38));
    }

    #[test]
    fn foreign_architectures_and_x32_are_killed() {
        let program = compile(&sample()).expect("compiles");
        assert_eq!(
            run(&program, 0x4000_0003, 8, [0; 6]),
            libc::SECCOMP_RET_KILL_PROCESS
        );
        assert_eq!(
            run(&program, ARCH, X32 | 8, [0; 6]),
            libc::SECCOMP_RET_KILL_PROCESS
        );
    }

    #[test]
    fn a_row_that_does_not_fit_is_refused() {
        let tests = vec![equals(0, 1); 200];
        let rules = vec![Rule::judged(9, vec![(tests, Answer::Allow)], Answer::Kill)];
        assert!(matches!(
            compile(&Filter { rules, ..sample() }),
            Err(FilterFailure::Row(9))
        ));
        let twice = vec![Rule::plain(9, Answer::Kill), Rule::plain(9, Answer::Allow)];
        let twice = Filter {
            rules: twice,
            ..sample()
        };
        assert!(matches!(compile(&twice), Err(FilterFailure::Row(9))));
        let newer = vec![Rule::plain(500, Answer::Kill)];
        let newer = Filter {
            rules: newer,
            ..sample()
        };
        assert!(matches!(compile(&newer), Err(FilterFailure::Row(500))));
    }
}
