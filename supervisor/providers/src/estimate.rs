//! What a call can cost at most, before it is made.

use std::io::{self, Write};

use supervisor_core::{Infer, budget::Estimate};

use crate::{Dialect, Providers};

/// Bytes of a request that make one token, at the least: words of English have four, code three. A
/// figure that is too small makes an estimate that is too large, and a budget that holds.
const BYTES_PER_TOKEN: u64 = 3;

/// Counts what is written.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Providers {
    /// What a call can cost, by the dearest model of its route.
    #[must_use]
    pub fn estimate(&self, infer: &Infer) -> Estimate {
        let models = &self.config.models;
        let mut found = Estimate {
            max_output: infer.request.max_output,
            free: true,
            ..Estimate::default()
        };
        for (provider, model) in infer.route() {
            if self.is_free(provider) {
                continue;
            }
            if found.free {
                found.free = false;
                found.input = tokens(&infer.request);
            }
            match models.price(provider, model) {
                None => found.unpriced = Some(format!("{provider}/{model}")),
                Some(price) => {
                    let long = price
                        .long
                        .as_ref()
                        .filter(|(above, _)| found.input > *above);
                    let rates = long.map_or(&price.rates, |(_, rates)| rates);
                    let input = rates.input.max(rates.cache_write);
                    let input = found.input.saturating_mul(input).div_ceil(1_000);
                    found.input_micro_usd = found.input_micro_usd.max(input);
                    found.output_nano_usd = found.output_nano_usd.max(rates.output);
                }
            }
        }
        found
    }

    /// Whether a provider only plays a file.
    #[must_use]
    pub fn is_free(&self, provider: &str) -> bool {
        let row = self.config.row(provider);
        row.is_some_and(|row| row.dialect == Dialect::Script)
    }
}

/// Tokens of a request, rather too many than too few.
fn tokens(request: &protocol::Infer) -> u64 {
    let mut count = Count(0);
    // Counting cannot fail; what has no JSON form is refused when it is encoded.
    let _ = serde_json::to_writer(&mut count, request);
    count.0.div_ceil(BYTES_PER_TOKEN)
}
