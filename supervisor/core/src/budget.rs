//! Whether a model call may be made under the budgets, and how much of them it holds until it is
//! settled. Pure: what was spent is passed in, by whoever keeps it.
//!
//! A call holds what it can cost at most: its input by an estimate that errs upwards, its output by its
//! limit. Where a budget leaves less than that limit, the limit is lowered, so that a budget is never
//! overrun by the answer that meets its end; where it leaves next to nothing, the call is refused.

use policies::{Budget, Limits};

/// The least output that is worth a call, in tokens.
pub const LEAST_OUTPUT: u32 = 1_024;

/// What a budget counts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// One session.
    Session,
    /// The account, since midnight UTC.
    Day,
    /// The account, ever.
    Account,
    /// One model of the account, since midnight UTC.
    ModelDay,
}

impl Span {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Session, Self::Day, Self::Account, Self::ModelDay];

    fn words(self) -> &'static str {
        match self {
            Self::Session => "of this session",
            Self::Day => "of this account for today",
            Self::Account => "of this account",
            Self::ModelDay => "of this model for today",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Session => "[limits]",
            Self::Day => "[limits.day]",
            Self::Account => "[limits.account]",
            Self::ModelDay => "[limits.model_day]",
        }
    }
}

/// What was spent, what is held included; or what one call holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Millionths of a US dollar.
    pub micro_usd: u64,
    /// Tokens in.
    pub input: u64,
    /// Tokens out.
    pub output: u64,
    /// Model calls.
    pub calls: u64,
}

impl Amount {
    /// The greater of each figure.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.max(other.micro_usd),
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            calls: self.calls.max(other.calls),
        }
    }

    fn tokens(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// What a call can cost, by the dearest model of its route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens in, rather too many than too few.
    pub input: u64,
    /// Its output limit.
    pub max_output: u32,
    /// What its input costs, in millionths of a US dollar.
    pub input_micro_usd: u64,
    /// What a token of output costs, in billionths of a US dollar.
    pub output_nano_usd: u64,
    /// Nothing leaves this machine: what it uses is known afterwards and costs nothing.
    pub free: bool,
    /// A model of the route whose price is not known.
    pub unpriced: Option<String>,
}

/// A call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// With this output limit.
    pub max_output: u32,
    /// It holds this until it is settled.
    pub hold: Amount,
}

/// A budget leaves too little.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Reached(String);

/// The budgets of a session.
#[derive(Debug, Clone, Copy)]
pub struct Budgets {
    /// The policy's.
    pub limits: Limits,
    /// The command line's: US dollars for this session.
    pub max_cost: Option<f64>,
}

impl Budgets {
    /// Whether anything is bounded by money.
    #[must_use]
    pub fn bound_money(&self) -> bool {
        let of = |span| self.of(span).iter().any(|(b, _)| b.cost_usd.is_some());
        Span::ALL.into_iter().any(of)
    }

    /// The budgets that count over a span, each with the place where it is said.
    fn of(&self, span: Span) -> Vec<(Budget, &'static str)> {
        let limits = &self.limits;
        let policy = match span {
            Span::Session => Budget {
                cost_usd: limits.cost_usd,
                tokens: limits.tokens,
                calls: limits.calls,
            },
            Span::Day => limits.day,
            Span::Account => limits.account,
            Span::ModelDay => limits.model_day,
        };
        let mut all = vec![(policy, span.key())];
        if let (Span::Session, Some(cost)) = (span, self.max_cost) {
            let own = Budget {
                cost_usd: Some(cost),
                ..Budget::default()
            };
            all.push((own, "--max-cost"));
        }
        all
    }

    /// Whether a call may be made; `spent` says what each span has spent, what others hold included.
    ///
    /// # Errors
    /// [`Reached`] names the budget, what is spent of it and what the call would need.
    pub fn admit(&self, spent: impl Fn(Span) -> Amount, ask: &Estimate) -> Result<Grant, Reached> {
        let mut room = u64::from(ask.max_output);
        for span in Span::ALL {
            for (budget, key) in self.of(span) {
                room = room.min(left(&budget, key, span, spent(span), ask, &self.limits)?);
            }
        }
        let max_output = u32::try_from(room).unwrap_or(u32::MAX).min(ask.max_output);
        let hold = match ask.free {
            true => Amount {
                calls: 1,
                ..Amount::default()
            },
            false => Amount {
                micro_usd: ask
                    .input_micro_usd
                    .saturating_add(cost(max_output.into(), ask.output_nano_usd)),
                input: ask.input,
                output: max_output.into(),
                calls: 1,
            },
        };
        Ok(Grant { max_output, hold })
    }
}

/// The output that one budget leaves a call.
fn left(
    budget: &Budget,
    key: &str,
    span: Span,
    spent: Amount,
    ask: &Estimate,
    limits: &Limits,
) -> Result<u64, Reached> {
    let reached = |what: String| Err(Reached(format!("{what} {} ({key})", span.words())));
    let least = u64::from(ask.max_output.min(LEAST_OUTPUT));
    let mut room = u64::MAX;
    if let Some(calls) = budget.calls.filter(|calls| spent.calls >= *calls) {
        return reached(format!(
            "{} model calls are made, the budget is {calls}",
            spent.calls
        ));
    }
    if let Some(tokens) = budget.tokens {
        let used = spent.tokens();
        let free = tokens.saturating_sub(used);
        let needs = if ask.free {
            1
        } else {
            ask.input.saturating_add(least)
        };
        if free < needs {
            return reached(format!(
                "{used} tokens are used or held, the next call needs {needs}, the budget is {tokens}"
            ));
        }
        if !ask.free {
            room = room.min(free - ask.input);
        }
    }
    if let Some(usd) = budget.cost_usd.filter(|_| !ask.free) {
        // Fail closed: what cannot be priced cannot be bounded.
        if let (Some(model), false) = (&ask.unpriced, limits.unpriced) {
            return Err(Reached(format!(
                "the price of {model} is not known, and {key} bounds the cost"
            )));
        }
        let whole = micro(usd);
        let free = whole.saturating_sub(spent.micro_usd);
        let needs = ask
            .input_micro_usd
            .saturating_add(cost(least, ask.output_nano_usd));
        if free < needs {
            return reached(format!(
                "{} are spent or held, the next call needs {}, the budget is {}",
                dollars(spent.micro_usd),
                dollars(needs),
                dollars(whole)
            ));
        }
        let tokens = (free - ask.input_micro_usd)
            .saturating_mul(1_000)
            .checked_div(ask.output_nano_usd);
        room = room.min(tokens.unwrap_or(u64::MAX));
    }
    Ok(room)
}

/// What tokens cost, in millionths of a US dollar, rounded up.
fn cost(tokens: u64, nano_usd: u64) -> u64 {
    tokens.saturating_mul(nano_usd).div_ceil(1_000)
}

/// US dollars as millionths, by their decimal writing.
fn micro(usd: f64) -> u64 {
    let text = format!("{:.6}", usd.clamp(0.0, 1e12));
    text.replace('.', "").parse().unwrap_or(0)
}

/// Millionths of a US dollar, for people.
#[must_use]
pub fn dollars(micro: u64) -> String {
    format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(limits: Limits) -> Budgets {
        Budgets {
            limits,
            max_cost: None,
        }
    }

    fn ask() -> Estimate {
        Estimate {
            input: 10_000,
            max_output: 8_000,
            input_micro_usd: 50_000,
            output_nano_usd: 25_000,
            free: false,
            unpriced: None,
        }
    }

    fn dollars_of(micro_usd: u64) -> Amount {
        Amount {
            micro_usd,
            ..Amount::default()
        }
    }

    #[test]
    fn without_a_budget_a_call_holds_what_it_can_cost_at_most() {
        let grant = budgets(Limits::default()).admit(|_| dollars_of(u64::MAX), &ask());
        let hold = Amount {
            micro_usd: 50_000 + 200_000,
            input: 10_000,
            output: 8_000,
            calls: 1,
        };
        assert_eq!(
            grant,
            Ok(Grant {
                max_output: 8_000,
                hold
            })
        );
    }

    #[test]
    fn a_budget_lowers_the_output_limit_to_what_it_leaves_and_refuses_what_it_cannot_pay() {
        let day = Budget {
            cost_usd: Some(1.0),
            ..Budget::default()
        };
        let budgets = budgets(Limits {
            day,
            ..Limits::default()
        });
        let admit = |spent: u64| {
            let of = move |span| match span {
                Span::Day => dollars_of(spent),
                _ => Amount::default(),
            };
            budgets.admit(of, &ask())
        };
        assert_eq!(admit(0).map(|grant| grant.max_output), Ok(8_000));
        assert_eq!(admit(750_000).map(|grant| grant.max_output), Ok(8_000));
        let grant = admit(850_000).expect("a smaller one");
        assert_eq!((grant.max_output, grant.hold.micro_usd), (4_000, 150_000));
        let refused = admit(930_000).expect_err("too little").to_string();
        assert_eq!(
            refused,
            "$0.9300 are spent or held, the next call needs $0.0756, the budget is $1.0000 of this \
             account for today ([limits.day])"
        );
        assert!(admit(u64::MAX).is_err());
    }

    #[test]
    fn each_budget_of_each_span_holds_and_the_command_line_only_adds_one() {
        let one = |budget: Budget, span: Span| {
            let mut limits = Limits::default();
            match span {
                Span::Session => {
                    (limits.cost_usd, limits.tokens, limits.calls) =
                        (budget.cost_usd, budget.tokens, budget.calls);
                }
                Span::Day => limits.day = budget,
                Span::Account => limits.account = budget,
                Span::ModelDay => limits.model_day = budget,
            }
            budgets(limits)
        };
        let spent = Amount {
            micro_usd: 900_000,
            input: 500,
            output: 400,
            calls: 3,
        };
        for span in Span::ALL {
            let of = move |asked| {
                if asked == span {
                    spent
                } else {
                    Amount::default()
                }
            };
            let none = Budget::default();
            for (budget, word) in [
                (
                    Budget {
                        calls: Some(3),
                        ..none
                    },
                    "3 model calls are made",
                ),
                (
                    Budget {
                        tokens: Some(5_000),
                        ..none
                    },
                    "900 tokens are used",
                ),
                (
                    Budget {
                        cost_usd: Some(0.95),
                        ..none
                    },
                    "$0.9000 are spent",
                ),
            ] {
                let refused = one(budget, span).admit(of, &ask()).expect_err("reached");
                let words = refused.to_string();
                assert!(
                    words.contains(word) && words.contains(span.key()),
                    "{words}"
                );
                // Elsewhere the same budget leaves enough but for what the call itself needs.
                let wide = Budget {
                    calls: Some(4),
                    tokens: Some(50_000),
                    cost_usd: Some(2.0),
                };
                assert!(one(wide, span).admit(of, &ask()).is_ok(), "{budget:?}");
            }
        }
        let own = Budgets {
            limits: Limits::default(),
            max_cost: Some(0.01),
        };
        let words = own
            .admit(|_| Amount::default(), &ask())
            .expect_err("too dear");
        assert!(words.to_string().contains("--max-cost"), "{words}");
        assert!(own.bound_money() && !budgets(Limits::default()).bound_money());
    }

    #[test]
    fn what_has_no_price_is_refused_under_a_budget_in_money_unless_the_policy_allows_it() {
        let unknown = Estimate {
            unpriced: Some("x/y".into()),
            input_micro_usd: 0,
            output_nano_usd: 0,
            ..ask()
        };
        let mut limits = Limits {
            cost_usd: Some(1.0),
            ..Limits::default()
        };
        let refused = budgets(limits).admit(|_| Amount::default(), &unknown);
        assert!(
            refused
                .expect_err("unknown")
                .to_string()
                .contains("price of x/y")
        );
        limits.unpriced = true;
        assert!(
            budgets(limits)
                .admit(|_| Amount::default(), &unknown)
                .is_ok()
        );
        limits.cost_usd = None;
        limits.unpriced = false;
        assert!(
            budgets(limits)
                .admit(|_| Amount::default(), &unknown)
                .is_ok()
        );
    }

    #[test]
    fn what_is_free_is_counted_after_the_call_and_never_in_money() {
        let free = Estimate {
            free: true,
            ..ask()
        };
        let limits = Limits {
            cost_usd: Some(0.01),
            tokens: Some(1_000),
            ..Limits::default()
        };
        let grant = budgets(limits)
            .admit(|_| Amount::default(), &free)
            .expect("free");
        assert_eq!(
            grant,
            Grant {
                max_output: 8_000,
                hold: Amount {
                    calls: 1,
                    ..Amount::default()
                }
            }
        );
        let used = Amount {
            input: 900,
            output: 100,
            ..Amount::default()
        };
        assert!(budgets(limits).admit(|_| used, &free).is_err());
    }
}
