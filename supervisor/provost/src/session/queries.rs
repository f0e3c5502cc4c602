//! Carries out permitted queries: one reader a query, which has that database file alone.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use policies::Database;
use protocol::{
    BUILD, CallId, FailureClass, SessionId, bounds,
    call::{Outcome, SqlAnswer},
    jail::Identity,
    reader::{Errand, Finding, ReaderSpec},
};
use supervisor_core::{EffectOutcome, ListTables, Message, Permit, QueryDatabase};
use supervisor_sandbox::{WorkerBinary, run_reader};

use super::links::Inbox;

/// The declared databases of a session.
#[derive(Debug, Clone)]
pub(crate) struct Databases {
    worker: Arc<WorkerBinary>,
    session: SessionId,
    account: Option<Identity>,
    declared: Rc<Vec<(Database, PathBuf)>>,
}

impl Databases {
    /// The declared ones with their files on the host.
    pub(crate) fn new(
        worker: Arc<WorkerBinary>,
        session: SessionId,
        account: Option<Identity>,
        declared: Vec<(Database, PathBuf)>,
    ) -> Self {
        Self {
            worker,
            session,
            account,
            declared: Rc::new(declared),
        }
    }

    /// Runs a query; the outcome comes as a message.
    pub(crate) fn query(&self, inbox: &Inbox, permit: Permit<QueryDatabase>) {
        let QueryDatabase {
            call,
            database,
            query,
        } = permit.spend();
        let known = self
            .declared
            .iter()
            .find(|(declared, _)| declared.name == database);
        let Some((declared, file)) = known else {
            let outcome = Outcome::Rows(SqlAnswer::error(format!("no database `{database}`")));
            return tell(inbox, call, outcome);
        };
        let errand = Errand::Query {
            database: file.display().to_string(),
            query,
            max_rows: declared.max_rows,
            tables: declared.tables.clone(),
        };
        self.send_reader(inbox, call, vec![errand], |findings| {
            match findings.into_iter().next() {
                Some(Finding::Rows(answer)) => Ok(Outcome::Rows(answer)),
                Some(Finding::Failed { message, .. }) => Err(message),
                Some(_) | None => Err("the reader gave another answer than rows".to_owned()),
            }
        });
    }

    /// Lists the tables of all declared databases.
    pub(crate) fn tables(&self, inbox: &Inbox, permit: Permit<ListTables>) {
        let ListTables { call } = permit.spend();
        let errands = self.errands();
        self.send_reader(inbox, call, errands, |findings| {
            let mut all = Vec::new();
            for finding in findings {
                match finding {
                    Finding::Tables { tables } => all.extend(tables),
                    Finding::Failed { message, .. } => return Err(message),
                    _ => return Err("the reader gave another answer than tables".to_owned()),
                }
            }
            Ok(Outcome::Tables { tables: all })
        });
    }

    /// One errand for the tables of each database.
    fn errands(&self) -> Vec<Errand> {
        let tables = self.declared.iter().map(|(declared, file)| Errand::Tables {
            name: declared.name.clone(),
            database: file.display().to_string(),
            tables: declared.tables.clone(),
        });
        tables.collect()
    }

    /// Tables by name for the tool's description, read before the session starts.
    pub(crate) fn describe(&self) -> Result<Vec<protocol::DatabaseInfo>, String> {
        let mut infos = Vec::new();
        for (errand, (declared, _)) in self.errands().into_iter().zip(self.declared.iter()) {
            let found = one_errand(&self.worker, &self.session, self.account, errand)?;
            let Finding::Tables { tables } = found else {
                return Err(format!("database `{}`: {}", declared.name, why(&found)));
            };
            infos.push(protocol::DatabaseInfo {
                name: declared.name.clone(),
                tables: tables.into_iter().map(|table| table.name).collect(),
                money: declared.money.clone(),
            });
        }
        Ok(infos)
    }

    fn send_reader(
        &self,
        inbox: &Inbox,
        call: CallId,
        errands: Vec<Errand>,
        read: impl FnOnce(Vec<Finding>) -> Result<Outcome, String> + 'static,
    ) {
        let (worker, session, inbox) = (
            Arc::clone(&self.worker),
            self.session.clone(),
            inbox.clone(),
        );
        let account = self.account;
        tokio::task::spawn_local(async move {
            let asked = tokio::task::spawn_blocking(move || {
                let findings = errands
                    .into_iter()
                    .map(|errand| one_errand(&worker, &session, account, errand));
                findings.collect::<Result<Vec<_>, _>>()
            });
            // The reader's own clock ends a query; this bound only covers a reader that hangs.
            let asked = tokio::time::timeout(bounds::ORDER_TIME, asked).await;
            let outcome = match asked {
                Ok(Ok(findings)) => findings.and_then(read),
                Ok(Err(_)) => Err("the reader's thread failed".to_owned()),
                Err(_) => Err(format!(
                    "no answer within {} s",
                    bounds::ORDER_TIME.as_secs()
                )),
            };
            let outcome = outcome.unwrap_or_else(|message| Outcome::Failed {
                class: FailureClass::Other,
                message: format!("cannot ask the database: {message}"),
            });
            tell(&inbox, call, outcome);
        });
    }
}

/// Sends one reader on one errand that has one finding, as `account` if root works for one.
pub(crate) fn one_errand(
    worker: &WorkerBinary,
    session: &SessionId,
    account: Option<Identity>,
    errand: Errand,
) -> Result<Finding, String> {
    let spec = ReaderSpec {
        build: BUILD.to_owned(),
        session: session.clone(),
        account,
        errand,
    };
    let mut found = None;
    run_reader(worker, &spec, &mut |finding| found = Some(finding)).map_err(|e| e.to_string())?;
    found.ok_or_else(|| "the reader found nothing".to_owned())
}

/// Why a finding is not the one that was wanted.
pub(crate) fn why(finding: &Finding) -> String {
    match finding {
        Finding::Failed { message, .. } => message.clone(),
        _ => "the reader gave another answer than was asked".to_owned(),
    }
}

fn tell(inbox: &Inbox, call: CallId, outcome: Outcome) {
    let outcome = EffectOutcome::Call {
        call,
        outcome: Box::new(outcome),
        before: None,
        spool: None,
    };
    let _ = inbox.send(Message::Effect(outcome));
}
