//! Server-sent events: lines to events, whatever the chunking, with every length bounded.

use protocol::bounds;

/// Assembles events from bytes.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    lines: bool,
    total: usize,
}

/// A bound that a stream has broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooLong {
    /// One line, or the data of one event.
    Line,
    /// The whole stream.
    Stream,
}

impl Sse {
    /// Takes bytes and hands the data of each whole event to `event` until it says stop or fails.
    ///
    /// Lines end with LF, CRLF or CR. Comments, names and other fields are passed over: the dialects
    /// say in the data itself what an event is. An event without its blank line never happened.
    pub(crate) fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<bool, E>,
    ) -> Result<(), E> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                self.count(1)?;
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let Some(end) = end else {
                self.count(bytes.len())?;
                return self.extend(bytes).map_err(E::from);
            };
            let (head, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            self.count(head.len() + 1)?;
            self.extend(head)?;
            self.after_cr = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            if self.end_line()? {
                let data = std::mem::take(&mut self.data);
                if !event(&data)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, more: usize) -> Result<(), TooLong> {
        self.total = self.total.saturating_add(more);
        if self.total > bounds::STREAM {
            Err(TooLong::Stream)
        } else {
            Ok(())
        }
    }

    fn extend(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + part.len() > bounds::STREAM_LINE {
            return Err(TooLong::Line);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Ends a line; true when it ends an event that has data.
    fn end_line(&mut self) -> Result<bool, TooLong> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.lines, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(std::mem::take(&mut self.has_data));
        }
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[][..],
            Some([b':', value @ ..]) => value.strip_prefix(b" ").unwrap_or(value),
            _ => return Ok(false),
        };
        if self.data.len() + value.len() + 1 > bounds::STREAM_LINE {
            return Err(TooLong::Line);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(stream: &[u8], size: usize) -> Result<Vec<String>, TooLong> {
        let mut sse = Sse::default();
        let mut seen = Vec::new();
        for piece in stream.chunks(size) {
            sse.push::<TooLong>(piece, &mut |data| {
                seen.push(String::from_utf8_lossy(data).into_owned());
                Ok(true)
            })?;
        }
        Ok(seen)
    }

    #[test]
    fn every_line_end_comment_and_field_is_read_the_same_in_any_pieces() {
        let stream = "\u{feff}data: one\n\n: keep-alive\r\nevent: x\r\ndata:two\r\ndata:  lines\r\n\r\n\
                      id: 7\rdata\rdata: grün\r\rretry: 5\n\ndatum: no\n\ndata: cut";
        let expected = ["one", "two\n lines", "\ngrün"];
        for size in 1..stream.len() {
            assert_eq!(
                events(stream.as_bytes(), size).expect("short"),
                expected,
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn a_line_and_an_event_have_a_longest_length() {
        let fits = [
            b"data:".as_slice(),
            &vec![b'x'; bounds::STREAM_LINE - 5],
            b"\n\n",
        ]
        .concat();
        assert_eq!(events(&fits, 4096).expect("fits").len(), 1);
        let long = vec![b'x'; bounds::STREAM_LINE + 1];
        assert_eq!(events(&long, 4096), Err(TooLong::Line));
        let half = [
            b"data:".as_slice(),
            &vec![b'x'; bounds::STREAM_LINE / 2],
            b"\n",
        ]
        .concat();
        assert_eq!(events(&half.repeat(3), 4096), Err(TooLong::Line));
    }

    #[test]
    fn a_whole_stream_has_a_longest_length() {
        let mut sse = Sse {
            total: bounds::STREAM - 3,
            ..Sse::default()
        };
        let mut seen = 0;
        let result = sse.push::<TooLong>(b"\n\n\ndata: x\n\n", &mut |_| {
            seen += 1;
            Ok(true)
        });
        assert_eq!((result, seen), (Err(TooLong::Stream), 0));
    }
}
