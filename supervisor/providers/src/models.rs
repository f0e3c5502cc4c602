//! What is known of models: window, output limit, prices with their date and source. Embedded,
//! overridden row by row by the operator's own `models.toml`.

use std::collections::BTreeMap;

use protocol::Usage;
use serde::Deserialize;

use crate::config::{ConfigFailure, parse};

const EMBEDDED: &str = include_str!("models.toml");

/// Taken for a model that no row names: what every current model of the dialect can do.
const UNKNOWN: (u32, u32) = (200_000, 16_384);

/// One model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Context window in tokens.
    pub window: u32,
    /// Output limit in tokens.
    pub output: u32,
    /// What it costs; `None` if that is not known.
    pub price: Option<Price>,
}

/// What a model costs, and since when and from where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The rates.
    pub rates: Rates,
    /// The rates of a call whose whole input is longer than so many tokens.
    pub long: Option<(u64, Rates)>,
    /// The day on which the price was read (`2026-11-10`).
    pub date: String,
    /// Where it was read.
    pub source: String,
}

/// Billionths of a US dollar a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Input without cached tokens.
    pub input: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// Output, reasoning included.
    pub output: u64,
}

impl Price {
    /// What a call costs, in millionths of a US dollar, rounded up. Figures that the provider did not
    /// report count as nothing.
    #[must_use]
    pub fn cost_micro_usd(&self, usage: &Usage) -> u64 {
        let tokens = |figure: Option<u64>| u128::from(figure.unwrap_or(0));
        let (input, read) = (tokens(usage.input_uncached), tokens(usage.cache_read));
        let (write, output) = (tokens(usage.cache_write), tokens(usage.output));
        let rates = match &self.long {
            Some((above, rates)) if input + read + write > u128::from(*above) => rates,
            _ => &self.rates,
        };
        let nano = input * u128::from(rates.input)
            + read * u128::from(rates.cache_read)
            + write * u128::from(rates.cache_write)
            + output * u128::from(rates.output);
        u64::try_from(nano.div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

/// All that is known of models.
#[derive(Debug, Clone)]
pub struct Models {
    rows: BTreeMap<(String, String), Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    model: Vec<RowFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    provider: String,
    id: String,
    window: u32,
    output: u32,
    price: Option<PriceFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    date: String,
    source: String,
    long: Option<LongFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongFile {
    above: u64,
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

impl Models {
    /// The embedded rows, then a file's, each given as name and content.
    pub(crate) fn load(file: Option<(&str, &str)>) -> Result<Self, ConfigFailure> {
        let mut models = Self {
            rows: BTreeMap::new(),
        };
        for (path, text) in [("embedded models.toml", EMBEDDED)].into_iter().chain(file) {
            let file: File = parse(path, text)?;
            let failure = |model: &str, problem: &str| ConfigFailure::Model {
                path: path.to_owned(),
                model: crate::failure::one_line(model, 80),
                problem: problem.to_owned(),
            };
            if file.version != 1 {
                return Err(failure("*", "version must be 1"));
            }
            for row in file.model {
                if row.output == 0 || row.window <= row.output {
                    return Err(failure(
                        &row.id,
                        "window must be larger than output, and both than 0",
                    ));
                }
                let price = row.price.map(price).transpose();
                let price = price.map_err(|problem| failure(&row.id, problem))?;
                let model = Model {
                    window: row.window,
                    output: row.output,
                    price,
                };
                models.rows.insert((row.provider, row.id), model);
            }
        }
        Ok(models)
    }

    /// A model's row; a dated id (`claude-haiku-4-5-20251001`) falls back to its undated one, and any
    /// id to its provider's row `*`.
    #[must_use]
    pub fn known(&self, provider: &str, model: &str) -> Option<&Model> {
        let find = |id: &str| self.rows.get(&(provider.to_owned(), id.to_owned()));
        let undated = || {
            let (undated, date) = model.rsplit_once('-')?;
            let is_date = date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
            is_date.then(|| find(undated)).flatten()
        };
        find(model).or_else(undated).or_else(|| find("*"))
    }

    /// Window and output limit, of the row or, for a model that nobody described, cautious ones.
    #[must_use]
    pub fn limits(&self, provider: &str, model: &str) -> (u32, u32) {
        self.known(provider, model)
            .map_or(UNKNOWN, |row| (row.window, row.output))
    }

    /// What a model costs, if that is known.
    #[must_use]
    pub fn price(&self, provider: &str, model: &str) -> Option<&Price> {
        self.known(provider, model)?.price.as_ref()
    }

    /// What a call cost in millionths of a US dollar, if the price is known.
    #[must_use]
    pub fn cost_micro_usd(&self, provider: &str, model: &str, usage: &Usage) -> Option<u64> {
        Some(self.price(provider, model)?.cost_micro_usd(usage))
    }

    /// All rows as (provider, model, row).
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Model)> {
        self.rows
            .iter()
            .map(|((provider, id), row)| (provider.as_str(), id.as_str(), row))
    }
}

fn price(file: PriceFile) -> Result<Price, &'static str> {
    if !is_date(&file.date) || file.source.is_empty() {
        return Err("a price needs its date (`2026-11-10`) and its source");
    }
    // What is not said of a cache is taken as dear as it can be, so that a budget holds.
    let rates = Rates {
        input: nano(file.input)?,
        cache_read: nano(file.cache_read.unwrap_or(file.input))?,
        cache_write: nano(file.cache_write.unwrap_or(file.input * 2.0))?,
        output: nano(file.output)?,
    };
    let long = file.long.map(|long| {
        let rates = Rates {
            input: nano(long.input)?,
            cache_read: nano(long.cache_read)?,
            cache_write: nano(long.cache_write)?,
            output: nano(long.output)?,
        };
        Ok::<_, &'static str>((long.above, rates))
    });
    Ok(Price {
        rates,
        long: long.transpose()?,
        date: file.date,
        source: file.source,
    })
}

/// US dollars a million tokens, as billionths of a dollar a token.
fn nano(usd: f64) -> Result<u64, &'static str> {
    if !usd.is_finite() || !(0.0..=100_000.0).contains(&usd) {
        return Err("a price is in US dollars per million tokens, 0 to 100,000");
    }
    // By its decimal writing: the file says 0.025, and that is exactly what is meant.
    let text = format!("{usd:.3}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    let parsed = whole.parse::<u64>().ok().zip(part.parse::<u64>().ok());
    parsed
        .map(|(whole, part)| whole * 1_000 + part)
        .ok_or("a price is a decimal number")
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits =
        |part: &&str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_digit());
    matches!(parts.as_slice(), [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, read: u64, write: u64, output: u64) -> Usage {
        Usage {
            input_uncached: Some(input),
            cache_read: Some(read),
            cache_write: Some(write),
            output: Some(output),
            reasoning: Some(output),
        }
    }

    #[test]
    fn embedded_rows_are_sound_and_a_dated_id_finds_its_row() {
        let models = Models::load(None).expect("embedded");
        assert!(
            models
                .iter()
                .filter(|(provider, ..)| *provider == "anthropic")
                .count()
                >= 10
        );
        for (provider, id, row) in models.iter() {
            let price = row
                .price
                .as_ref()
                .unwrap_or_else(|| panic!("{provider}/{id} has no price"));
            assert!(price.rates.cache_read <= price.rates.input, "{id}");
            let dearer = price.rates.cache_write >= price.rates.input;
            assert!(dearer || provider != "anthropic", "{id}");
            assert!(price.rates.output >= price.rates.input, "{id}");
        }
        let dated = models
            .known("anthropic", "claude-haiku-4-5-20251001")
            .expect("dated");
        assert_eq!(Some(dated), models.known("anthropic", "claude-haiku-4-5"));
        assert_eq!(models.known("anthropic", "claude-haiku-4-5-latest"), None);
        assert_eq!(models.limits("anthropic", "new"), UNKNOWN);
        let free = models.cost_micro_usd("script", "any/name", &usage(1, 1, 1, 1));
        assert_eq!(free, Some(0), "a row `*` stands for all");
        assert_eq!(models.price("anthropic", "new"), None);
    }

    #[test]
    fn a_call_costs_what_its_kinds_cost_rounded_up() {
        let models = Models::load(None).expect("embedded");
        let cost = |model: &str, usage: Usage| models.cost_micro_usd("anthropic", model, &usage);
        assert_eq!(
            cost("claude-opus-5", usage(1_000_000, 0, 0, 0)),
            Some(5_000_000)
        );
        assert_eq!(
            cost("claude-opus-5", usage(10, 1_000, 100, 20)),
            Some(50 + 500 + 625 + 500)
        );
        assert_eq!(
            cost("claude-opus-5", usage(0, 1, 0, 0)),
            Some(1),
            "half a millionth is one"
        );
        assert_eq!(cost("claude-opus-5", Usage::default()), Some(0));
        assert_eq!(
            cost("claude-haiku-5-5", usage(100_000, 0, 0, 0)),
            Some(10_000)
        );
        assert_eq!(
            cost("claude-haiku-5-5", usage(50_000, 50_001, 0, 1_000)),
            Some(25_000 + 2_501 + 2_500)
        );
        assert_eq!(cost("nobody", usage(1, 1, 1, 1)), None);
        assert_eq!(
            cost(
                "claude-opus-5",
                usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)
            ),
            Some(u64::MAX)
        );
    }

    #[test]
    fn a_file_replaces_rows_and_its_mistakes_are_named() {
        let row = |price: &str| {
            format!(
                "version = 1\n[[model]]\nprovider = \"anthropic\"\nid = \"claude-opus-5\"\n\
                 window = 9\noutput = 8\n{price}"
            )
        };
        let load = |text: &str| Models::load(Some(("models.toml", text)));
        let models = load(&row("")).expect("good");
        assert_eq!(models.limits("anthropic", "claude-opus-5"), (9, 8));
        assert_eq!(models.price("anthropic", "claude-opus-5"), None);
        let price = "price = { input = 0.1, output = 1, date = \"2026-01-02\", source = \"x\" }";
        let models = load(&row(price)).expect("good");
        let rates = models
            .price("anthropic", "claude-opus-5")
            .expect("known")
            .rates;
        assert_eq!(
            rates,
            Rates {
                input: 100,
                cache_read: 100,
                cache_write: 200,
                output: 1_000
            }
        );
        for (bad, word) in [
            (
                "price = { input = 1, output = 1, date = \"today\", source = \"x\" }",
                "date",
            ),
            (
                "price = { input = -1, output = 1, date = \"2026-01-02\", source = \"x\" }",
                "0 to",
            ),
            ("prize = 1", "prize"),
        ] {
            let failure = load(&row(bad)).expect_err(bad).to_string();
            assert!(
                failure.contains(word) && failure.contains("models.toml"),
                "{failure}"
            );
        }
        assert!(load(&row("").replace("window = 9", "window = 8")).is_err());
    }
}
