//! A query that wants all memory; alone in its process, since the engine's limit is the process's.

#[cfg(test)]
mod tests {
    use protocol::call::SqlAnswer;
    use protocol::reader::{Errand, Finding};

    #[test]
    fn a_query_that_wants_all_memory_is_refused_and_the_process_lives() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("empty.db");
        std::fs::write(&path, "").expect("writes");
        let errand = Errand::Query {
            database: path.to_str().expect("text").to_owned(),
            query: "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 90) \
                    SELECT group_concat(x) FROM (SELECT hex(randomblob(4000000)) AS x FROM c \
                    ORDER BY x)"
                .to_owned(),
            max_rows: 10,
            tables: vec![],
        };
        let mut answers = Vec::new();
        worker_reader::run(&errand, &mut |finding| {
            answers.push(finding);
            Ok(())
        })
        .expect("the link holds");
        let Some(Finding::Rows(SqlAnswer::Error { error, .. })) = answers.pop() else {
            panic!("{answers:?}")
        };
        assert_eq!(error, "OperationalError: out of memory");
    }
}
