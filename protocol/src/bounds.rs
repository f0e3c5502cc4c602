//! Every bound of the treaty and of a session's defaults in one table, each with its reason.

use std::time::Duration;

/// Bytes in one KiB, MiB, GiB.
pub const KIB: u64 = 1024;
/// One MiB in bytes.
pub const MIB: u64 = 1024 * KIB;
/// One GiB in bytes.
pub const GIB: u64 = 1024 * MIB;

/// One bound: its name, its value as people read it, and why it is that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The name used in errors and docs.
    pub name: &'static str,
    /// The value, for people.
    pub value: &'static str,
    /// Why this value.
    pub reason: &'static str,
}

macro_rules! bounds {
    ($($(#[$doc:meta])* $name:ident : $ty:ty = $value:expr, $shown:literal, $reason:literal;)*) => {
        $(
            $(#[$doc])*
            #[doc = concat!("\n\n", $shown, ": ", $reason, ".")]
            pub const $name: $ty = $value;
        )*
        /// The whole table, for `doctor`, the docs and the test that holds them together.
        pub const TABLE: &[Bound] = &[
            $(Bound { name: stringify!($name), value: $shown, reason: $reason },)*
        ];
    };
}

bounds! {
    /// Largest frame on either link, model requests apart.
    FRAME: usize = 1024 * 1024, "1 MiB", "a batch of ten calls fits; a peer cannot make us hold more per message";
    /// Largest frame that carries a model request or a resumed history.
    MODEL_FRAME: usize = 16 * 1024 * 1024, "16 MiB", "a full context of a large model as JSON, with images";
    /// Deepest nesting of a JSON frame.
    DEPTH: usize = 64, "64 levels", "tool inputs nest by hand-written schemas; recursion stays far below any stack";
    /// Frames that the agent may send in one second, on average.
    FRAMES_PER_SECOND: u32 = 2_000, "2,000 a second", "ten calls with all their progress notes, hundreds of times over";
    /// Frames that the agent may send at once before the rate applies.
    FRAME_BURST: u32 = 4_000, "4,000 frames", "one resumed history is one frame; a burst this long is a flood";
    /// How long a greeting may take.
    GREETING: Duration = Duration::from_secs(5), "5 s", "set-up takes milliseconds; a loaded machine takes a second";
    /// Calls in one batch.
    BATCH: usize = 10, "10 calls", "what runs at once; more calls come as more batches";
    /// Longest tool input as JSON.
    TOOL_INPUT: usize = 768 * 1024, "768 KiB", "a whole source file fits, its frame stays below 1 MiB";
    /// Largest file content that a tool may write in one call.
    FILE_CONTENT: usize = 512 * 1024, "512 KiB", "written by a model in one answer; escaped JSON stays within a frame";
    /// Largest file that read_file and edit_file open.
    FILE_READ: u64 = 16 * MIB, "16 MiB", "text that a model reads by pieces; larger is data";
    /// Bytes of a tool's output shown to the model.
    OUTPUT_TO_MODEL: usize = 64 * 1024, "64 KiB", "about 16,000 tokens: head and tail of a long log";
    /// Bytes of one command's output that are kept.
    OUTPUT_SPOOL: u64 = 10 * MIB, "10 MiB", "enough to look a failure up later; a flood cannot fill the disk";
    /// Commands of one session at once.
    COMMANDS: usize = 16, "16 commands", "ten parallel calls and a few background jobs";
    /// Default time limit of one command.
    COMMAND_TIME: Duration = Duration::from_secs(120), "120 s", "most builds and test runs; longer is asked for";
    /// Longest time limit that a command may ask for.
    COMMAND_TIME_MAX: Duration = Duration::from_secs(3_600), "3,600 s", "an hour of one command is a job for CI itself";
    /// What a leader's children get after it has left.
    COMMAND_GRACE: Duration = Duration::from_millis(200), "200 ms", "a pipe's last reader finishes; a daemon does not hide";
    /// Length of one shell line.
    COMMAND_LINE: usize = 64 * 1024, "64 KiB", "a long here-document; beyond it a file is the better way";
    /// Wall time of a session.
    WALL: Duration = Duration::from_secs(30 * 60), "30 min", "a task that a person waits for; --timeout sets it";
    /// Memory of a session.
    MEMORY: u64 = 2 * GIB, "2 GiB", "a compiler and its tests; a shared machine survives it";
    /// Processes of a session.
    PROCESSES: u64 = 256, "256", "parallel builds; a fork bomb ends at once";
    /// Disk of a session.
    DISK: u64 = 4 * GIB, "4 GiB", "a build tree; watched where no quota can be set";
    /// The private /tmp.
    TMP: u64 = 512 * MIB, "512 MiB", "it is memory: a quarter of the session's";
    /// Inodes of the private /tmp.
    TMP_INODES: u64 = 100_000, "100,000", "an unpacked archive; kernel memory stays bounded";
    /// Open files of one process.
    OPEN_FILES: u64 = 1_024, "1,024", "the usual soft limit; a descriptor flood stays its own";
    /// Largest single file that a command may write.
    FILE_SIZE: u64 = 2 * GIB, "2 GiB", "a release archive; a runaway log ends";
    /// Workspace bytes copied in.
    COPY_BYTES: u64 = 2 * GIB, "2 GiB", "beyond it the copy costs more than the task; overlay is the way";
    /// Workspace entries copied in.
    COPY_ENTRIES: u64 = 200_000, "200,000", "a large repository with its dependencies";
    /// Workspace entries below an overlay.
    OVERLAY_ENTRIES: u64 = 500_000, "500,000", "names are listed once and nothing is copied: seconds, and a manifest of 100 MiB";
    /// Bytes of pre-images and spools that a session keeps.
    KEPT_BYTES: u64 = GIB, "1 GiB", "undo for everything a person would review";
    /// Entries of pre-images and spools that a session keeps.
    KEPT_ENTRIES: u64 = 20_000, "20,000", "the same, in files";
    /// How long a person may take to answer.
    APPROVAL: Duration = Duration::from_secs(600), "10 min", "silence is deny; a session does not wait for ever";
    /// Questions to people that a session may have open.
    QUESTIONS_OPEN: usize = 32, "32 questions", "more than anybody reads; a flood wears people down until they say yes";
    /// How long the classifier of mode auto may take.
    CLASSIFIER_TIME: Duration = Duration::from_secs(10), "10 s", "a small model answers in two; then a person is the quicker way";
    /// Output limit of the classifier in tokens.
    CLASSIFIER_OUTPUT: u32 = 1_024, "1,024 tokens", "one sentence, and what a reasoning model thinks before it";
    /// Calls that wait for the classifier at once.
    CLASSIFICATIONS_OPEN: usize = 10, "10 calls", "a batch, each call of which asks";
    /// Questions to the classifier in one turn.
    CLASSIFICATIONS: u32 = 200, "200 in a turn", "two for each iteration; a loop that lies is not paid for";
    /// How often people are asked about one and the same action that they deny.
    DENIALS: u32 = 2, "2 times", "a no that is asked again and again becomes a yes by fatigue";
    /// How long a prompt must stand before an answer to it counts.
    PROMPT_STANDS: Duration = Duration::from_millis(400), "400 ms", "keys meant for something else never answer";
    /// Programs that ask a session's operator socket at once.
    OPERATORS: usize = 8, "8 connections", "a person, a console, a script";
    /// How long an operator's connection may say nothing.
    OPERATOR_IDLE: Duration = Duration::from_secs(30), "30 s", "a connection that hangs holds a place";
    /// How long a hook may take by default.
    HOOK_TIME: Duration = Duration::from_secs(10), "10 s", "a script that looks something up; who waits longer says so";
    /// Longest time that a hook may ask for.
    HOOK_TIME_MAX: Duration = Duration::from_secs(30), "30 s", "a call stands still meanwhile, and several hooks follow one another";
    /// Bytes that a hook is told.
    HOOK_INPUT: usize = 1024 * 1024, "1 MiB", "the longest tool input as JSON, and what is said of it";
    /// Bytes that a hook may answer, on each of its two outputs.
    HOOK_OUTPUT: usize = 1024 * 1024, "1 MiB", "a rewritten input may be as long as an input; a flood ends the hook";
    /// Bytes that one hook may say to the model.
    HOOK_CONTEXT: usize = 8 * 1024, "8 KiB", "two pages; it is read again with each model call";
    /// Bytes that hooks may say to the model before one model call.
    HOOK_CONTEXTS: usize = 32 * 1024, "32 KiB", "four hooks at their bound";
    /// Hooks of one policy, all layers together.
    HOOKS: usize = 64, "64 hooks", "each event, several times over";
    /// Hooks of one event.
    HOOKS_PER_EVENT: usize = 8, "8 hooks", "they run one after another, each within its time";
    /// Hooks that run at once.
    HOOKS_AT_ONCE: usize = 4, "4 hooks", "parallel calls have theirs side by side; commands keep their places";
    /// Changes of one call's input by hooks.
    HOOK_REWRITES: u32 = 3, "3 changes", "after each one every hook sees the input again; who has not settled by then is at odds";
    /// Largest file that a hook executes.
    HOOK_FILE: u64 = 256 * KIB, "256 KiB", "a long script; its bytes are what is approved";
    /// Iterations of one turn.
    ITERATIONS: u32 = 100, "100", "a long task; a loop that spins ends";
    /// Turns of one session.
    TURNS: u32 = 100, "100", "a day's conversation";
    /// Tool calls of one model answer.
    CALLS_PER_ANSWER: usize = 100, "100 calls", "ten full batches; more comes in the next answer";
    /// Answers in a row that hold only calls which no tool takes.
    INVALID_ROUNDS: u32 = 5, "5 answers", "a model that cannot mend its calls by then will not";
    /// Nudges in a row of a model that announces a step and stops.
    NUDGES: u32 = 3, "3 in a row", "who does not move after three words is not moving";
    /// Resumes in a row of an answer that the output limit cut.
    RESUMES: u32 = 3, "3 in a row", "four answers' worth of text for one answer";
    /// How often an empty answer is asked again.
    EMPTY_ANSWERS: u32 = 1, "once", "an empty end may be an accident; two are a fault";
    /// Tries again in a row of a failed model call.
    RECOVERIES: u32 = 3, "3 in a row", "the supervisor's own retries and fallbacks come on top";
    /// First wait of a backoff; doubled each time.
    BACKOFF_FIRST: Duration = Duration::from_millis(250), "250 ms", "a short hiccup costs a blink";
    /// Longest wait of a backoff.
    BACKOFF_LONGEST: Duration = Duration::from_secs(30), "30 s", "a person still believes that something happens";
    /// Longest wait that a provider's advice may cause.
    RETRY_AFTER: Duration = Duration::from_secs(300), "300 s", "a turn that must sleep longer ends and says so";
    /// Times that a circle of calls is run through before it is one.
    CIRCLE_TIMES: usize = 3, "3 times", "a flaky test deserves one more try, not two";
    /// Longest circle of rounds that is noticed.
    CIRCLE_ROUNDS: usize = 4, "4 rounds", "install, build, test, look: the longest that was seen in the wild";
    /// Bytes of project instructions that are shown to the model.
    INSTRUCTIONS: usize = 32 * 1024, "32 KiB", "about 8,000 tokens in each call; the rest can be read";
    /// How long what is under way may take after a cancel.
    CANCEL_GRACE: Duration = Duration::from_secs(2), "2 s", "a command ends in milliseconds; a person does not wait longer";
    /// How long one model call may take, with retries and fallbacks.
    INFER_TIME: Duration = Duration::from_secs(3_600), "3,600 s", "a very long answer of a slow model; a lost reply ends the turn";
    /// Entries that one glob or grep looks at.
    WALK_ENTRIES: usize = 200_000, "200,000", "a workspace as large as it may be";
    /// Folders below one another that glob and grep enter.
    WALK_DEPTH: usize = 64, "64 levels", "no real project nests deeper; the stack stays small";
    /// Results that one listing or glob returns.
    PATHS_SHOWN: usize = 1_000, "1,000", "what a model can use; a narrower pattern finds the rest";
    /// Files of a session whose reading the agent remembers.
    FILES_READ: usize = 10_000, "10,000 files", "far more than a conversation holds";
    /// Bytes of one model answer.
    ANSWER: usize = 8 * 1024 * 1024, "8 MiB", "far above any output limit; a stuck stream ends";
    /// Bytes of one line in a provider's event stream.
    STREAM_LINE: usize = 4 * 1024 * 1024, "4 MiB", "one event with a whole file as tool input";
    /// Bytes of one provider's whole event stream, envelopes included.
    STREAM: usize = 128 * 1024 * 1024, "128 MiB", "the largest answer in deltas of one token each, fifteen times its text";
    /// Bytes of a provider's error body that are read.
    ERROR_BODY: usize = 64 * 1024, "64 KiB", "real ones are a few hundred bytes; a proxy's page is cut";
    /// Time to connect to a provider.
    CONNECT_TIME: Duration = Duration::from_secs(10), "10 s", "name, handshake and a slow link";
    /// Time until a provider's first byte.
    FIRST_BYTE_TIME: Duration = Duration::from_secs(120), "120 s", "a long prompt is read before the first event";
    /// Time until the first text, reasoning or call of an answer; pings are none.
    FIRST_CONTENT_TIME: Duration = Duration::from_secs(900), "900 s", "a model that queues or thinks unseen; a row of providers.toml says less";
    /// Window of the guard against slow streams.
    SLOW_WINDOW: Duration = Duration::from_secs(600), "600 s", "a delta each five seconds is far above the least; a drip holds nobody for an hour";
    /// Bytes of a stream that must come within the window.
    SLOW_BYTES: u64 = KIB, "1 KiB", "two bytes a second: a ping each quarter of a minute is more";
    /// Models of one route.
    ROUTE: usize = 8, "8 models", "each may take its whole limit of time; nobody waits for a ninth";
    /// Silence within a provider's stream; any byte ends it.
    STREAM_IDLE: Duration = Duration::from_secs(300), "300 s", "long reasoning between two events; pings count";
    /// Time of one whole answer.
    ANSWER_TIME: Duration = Duration::from_secs(3_600), "3,600 s", "far above any healthy stream; a drip ends";
    /// Attempts of one model call.
    ATTEMPTS: u32 = 3, "3 attempts", "a short outage passes; the loop above counts its own";
    /// Longest wait between two attempts, and the longest advice of a provider that is followed.
    RETRY_WAIT: Duration = Duration::from_secs(60), "60 s", "longer is told to the caller instead of slept through";
    /// How long a model call waits for its turn under a rate of requests or tokens.
    RATE_WAIT: Duration = Duration::from_secs(60), "60 s", "a rate is per minute: longer waits mean that it is too low for the work";
    /// `[[budget]]` tables of one policy layer.
    BUDGETS: usize = 32, "32 tables", "each is a sum over the record before each model call";
    /// Largest key file.
    KEY_FILE: u64 = 32 * KIB, "32 KiB", "a sign-in's tokens or a service account, sealed; a file that is no key is noticed";
    /// Largest file of another program that holds credentials.
    CREDENTIALS_FILE: u64 = 256 * KIB, "256 KiB", "hundreds of profiles";
    /// Bytes of a token service's answer.
    TOKEN_BODY: usize = 64 * 1024, "64 KiB", "three tokens with all their claims are a tenth of that";
    /// How long a token service may take.
    TOKEN_TIME: Duration = Duration::from_secs(15), "15 s", "a person waits for the answer behind it";
    /// How long a metadata service of this machine may take.
    METADATA_TIME: Duration = Duration::from_secs(2), "2 s", "it is on the host itself; elsewhere nobody answers at all";
    /// How long a key file's lock is waited for.
    KEY_LOCK: Duration = Duration::from_secs(30), "30 s", "another supervisor's refresh, twice over";
    /// How long a person may take to sign in.
    SIGN_IN: Duration = Duration::from_secs(900), "15 min", "the code itself holds no longer";
    /// Largest providers.toml or models.toml.
    CONFIG_FILE: u64 = MIB, "1 MiB", "thousands of rows";
    /// Largest conversation file of the script provider.
    SCRIPT_FILE: u64 = 16 * MIB, "16 MiB", "as much as one model request";
    /// Rows that run_sql returns by default.
    SQL_ROWS: usize = 100, "100 rows", "what a model can read; the query can aggregate";
    /// Bytes of one cell that run_sql returns.
    SQL_CELL: usize = 16 * 1024, "16 KiB", "a text column; a blob is named by its length";
    /// Bytes of all rows that run_sql returns.
    SQL_BYTES: usize = 256 * 1024, "256 KiB", "the result fits a frame with room";
    /// Time of one query.
    SQL_TIME: Duration = Duration::from_secs(10), "10 s", "a scan of a large file; a cross join ends";
    /// How long the supervisor waits for an order to be answered.
    ORDER_TIME: Duration = Duration::from_secs(30), "30 s", "a put with fsync on a slow disk; a hung mount marks the session stuck";
    /// How long the supervisor waits for room on the hands link.
    LINK_SEND: Duration = Duration::from_secs(5), "5 s", "hands reads at once; one that does not is stuck and its session ends";
    /// Set-up handles that hands may send up.
    SETUP_HANDLES: usize = 4, "4 handles", "the pidfd today; listeners and the terminal's folder later";
    /// Entries of one tree that are granted one by one, beside what must stay out of it.
    SIBLINGS: usize = 1_000, "1,000 entries", "5 ms of set-up; a tree that needs more is the wrong tree to grant";
    /// Sockets of one session whose ports the supervisor keeps for it.
    PORTS: usize = 128, "128 ports", "test suites open a few at a time; each holds one of the supervisor's descriptors";
    /// File changes whose pre-images wait to be read.
    PUTS: usize = 4, "4 changes", "each holds at most one readable file in memory; the supervisor drains at once";
    /// Reports that hands holds for a supervisor that does not read.
    REPORTS_HELD: usize = 256 * 1024, "256 KiB", "beyond it hands takes no further order until they are read";
    /// Entries of a folder that hands looks through for what a killed put left behind.
    SWEEP: usize = 10_000, "10,000 entries", "a source folder; a larger one is swept in part";
    /// The private /dev/shm.
    SHM: u64 = 64 * MIB, "64 MiB", "semaphores and small shared buffers; it is memory";
    /// Largest policy file.
    POLICY_FILE: usize = 1024 * 1024, "1 MiB", "a thousand rules with their examples; a workspace cannot make us hold more";
    /// Files that one layer's `extends` may chain.
    POLICY_EXTENDS: usize = 8, "8 files", "team, department, company and a shipped profile, twice over";
    /// Rules of one layer.
    POLICY_RULES: usize = 1_000, "1,000 rules", "all pairs are compared at load; people do not review more";
    /// Patterns of all rules of one layer.
    POLICY_PATTERNS: usize = 4_000, "4,000 patterns", "the same bound for the lists inside the rules";
    /// Simple commands and redirections of one shell line that are judged one by one.
    LINE_PARTS: usize = 256, "256 parts", "a long script; beyond it nobody reads the question, and a file is the better way";
    /// How long a reader may take for a whole tree.
    READER_TIME: Duration = Duration::from_secs(300), "300 s", "copying 2 GiB from a slow disk";
    /// How long a writer of the record waits for the one that writes now.
    RECORD_WAIT: Duration = Duration::from_secs(5), "5 s", "one commit takes milliseconds on a slow disk; 16 supervisors queue";
    /// Audit records between two checkpoints of all chains.
    CHECKPOINT_EVERY: u64 = 256, "256 records", "a tail that is cut in between is short; the cost stays below one row in a hundred";
    /// Largest single entry of the record, as JSON.
    RECORD_ENTRY: usize = 32 * 1024 * 1024, "32 MiB", "a model frame escaped twice; beyond it a blob is the place";
    /// Largest blob.
    BLOB: u64 = 64 * MIB, "64 MiB", "a spool with room; the largest file that read_file opens, four times";
    /// Folders below one another that a reader follows.
    TREE_DEPTH: usize = 256, "256 levels", "one handle a level on each side; no real project nests a quarter as deep";
    /// Entries of a session's tree that a reader compares.
    LIST_ENTRIES: u64 = 1_000_000, "1,000,000", "five times what was copied in: build trees and dependencies";
    /// Bytes of a session's tree that a reader hashes.
    LIST_BYTES: u64 = 8 * GIB, "8 GiB", "a session's disk twice; a sparse file costs time, not disk";
    /// Changes in one page.
    CHANGES_PAGE: usize = 500, "500 changes", "a page of usual paths is a quarter of a frame";
    /// Bytes of one page of changes.
    CHANGES_BYTES: usize = 512 * 1024, "512 KiB", "long names end the page early; it fits a frame twice";
    /// Largest file whose text is compared line by line.
    DIFF_FILE: u64 = 8 * MIB, "8 MiB", "sources and lock files; larger goes as a whole";
    /// Time for comparing the lines of one file.
    DIFF_TIME: Duration = Duration::from_secs(2), "2 s", "then the rest counts as changed: larger, never wrong";
    /// Largest file that goes into a patch.
    PATCH_FILE: u64 = 64 * MIB, "64 MiB", "held in memory twice; larger changes are applied, not mailed";
    /// Memory of one query.
    SQL_MEMORY: usize = 128 * 1024 * 1024, "128 MiB", "sorts in memory, as a reader may write nowhere";
    /// Largest value or row inside a query.
    SQL_VALUE: usize = 16 * 1024 * 1024, "16 MiB", "a document in a column; functions on it end in seconds";
    /// How long a container engine may take for one call.
    ENGINE_CALL: Duration = Duration::from_secs(20), "20 s", "a start takes a third of a second; a machine full of builds takes ten of them, an engine that hangs takes for ever";
    /// How long a session's end may take before it is killed.
    END_TIME: Duration = Duration::from_secs(3), "3 s", "wardens take milliseconds";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_has_a_reason_and_the_frames_hold_what_they_promise() {
        assert!(TABLE.len() > 35);
        for bound in TABLE {
            assert!(bound.reason.len() > 10, "{}", bound.name);
        }
        const { assert!(TOOL_INPUT < FRAME && FILE_CONTENT < TOOL_INPUT && SQL_BYTES < FRAME) };
        const { assert!(FRAME < MODEL_FRAME && OUTPUT_TO_MODEL * BATCH < FRAME) };
    }
}
