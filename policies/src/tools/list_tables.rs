//! `list_tables`: the tables of the declared databases.

use protocol::{DatabaseInfo, bounds};

use super::{Contract, Effect, Tool};

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::ListTables,
    describe,
    fields: &[],
    read_only: true,
    concurrency_safe: true,
    effect: Effect::Supervisor,
    time_limit: bounds::SQL_TIME,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Lists the tables and views of the declared databases. Returns {ok: true, tables}: each has \
     database, name and columns (name and declared type)."
        .to_owned()
}
