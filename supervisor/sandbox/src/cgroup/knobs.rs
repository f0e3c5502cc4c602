//! From limits to the files of a group.

use super::{Controller, Knob, Limits, PERIOD, SHARES, WEIGHT};

/// What a controller's group must say, in the order of writing.
pub(super) fn knobs(controller: Controller, unified: bool, limits: &Limits) -> Vec<Knob> {
    let knob = |file, value: String| Knob {
        file,
        value,
        optional: false,
    };
    let perhaps = |file, value| Knob {
        optional: true,
        ..knob(file, value)
    };
    let quota = |cpus: f64| {
        // At least a hundredth of a processor, as the policy's reader promises.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the policy's reader bounds it between 0.01 and 4,096"
        )]
        let quota = (cpus * 100_000.0) as u64;
        quota.max(1_000)
    };
    let memory = limits.memory.to_string();
    match (controller, unified) {
        (Controller::Memory, true) => vec![
            knob("memory.max", memory),
            perhaps("memory.swap.max", "0".to_owned()),
        ],
        // The order matters: memory and swap together are never less than memory.
        (Controller::Memory, false) => vec![
            knob("memory.limit_in_bytes", memory.clone()),
            perhaps("memory.memsw.limit_in_bytes", memory),
        ],
        (Controller::Pids, _) => vec![knob("pids.max", limits.processes.to_string())],
        (Controller::Cpu, true) => {
            let mut knobs = vec![knob("cpu.weight", WEIGHT.to_string())];
            if let Some(cpus) = limits.cpu {
                knobs.insert(0, knob("cpu.max", format!("{} {PERIOD}", quota(cpus))));
            }
            knobs
        }
        (Controller::Cpu, false) => {
            let mut knobs = vec![knob("cpu.shares", SHARES.to_string())];
            if let Some(cpus) = limits.cpu {
                knobs.insert(0, knob("cpu.cfs_quota_us", quota(cpus).to_string()));
                knobs.insert(1, knob("cpu.cfs_period_us", PERIOD.to_string()));
            }
            knobs
        }
    }
}
