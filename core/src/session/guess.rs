//! Guessing the next tokens, so that several positions can be decoded in one pass and verified by it.

/// Places of the table.
const PLACES: usize = 64;
/// A run of padding that is longer counts as this long.
const LONGEST_RUN: u32 = 15;
/// How often a token is trusted beyond what spoke against it.
const MOST_TRUST: u8 = 3;

/// What followed in this stream where the text was like this. Right or wrong guesses cost time, never change a result.
///
/// A context is the last token that was not padding and the number of padding tokens since: words of a speaker come at
/// a pace, and begin with the same control token. Where nothing is known the guess is padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guesses {
    padding: u32,
    context: Context,
    table: [Followed; PLACES],
}

/// The end of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    last: u32,
    run: u32,
}

impl Context {
    fn push(self, token: u32, padding: u32) -> Self {
        if token == padding {
            Self {
                run: self.run.saturating_add(1).min(LONGEST_RUN),
                ..self
            }
        } else {
            Self { last: token, run: 0 }
        }
    }

    /// The context's place in the table; others may share it.
    fn place(self) -> usize {
        let mixed = self.last.wrapping_mul(0x9E37_79B1) ^ self.run.wrapping_mul(0x85EB_CA77);
        usize::try_from(mixed >> 26).unwrap_or(0) % PLACES
    }
}

/// What followed a context, and how sure that is; nothing if `trust` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    context: Context,
    token: u32,
    trust: u8,
}

impl Guesses {
    /// Nothing is known yet.
    pub(super) fn new(padding: u32) -> Self {
        Self {
            padding,
            context: Context::default(),
            table: [Followed::default(); PLACES],
        }
    }

    /// Where the text that was decided ends.
    pub(super) fn context(&self) -> Context {
        self.context
    }

    /// What may follow a context.
    pub(super) fn after(&self, context: Context) -> u32 {
        match self.table.get(context.place()) {
            Some(followed) if followed.trust > 0 && followed.context == context => followed.token,
            _ => self.padding,
        }
    }

    /// The context behind a token.
    pub(super) fn behind(&self, context: Context, token: u32) -> Context {
        context.push(token, self.padding)
    }

    /// Takes a token that was decided.
    pub(super) fn learn(&mut self, token: u32) {
        let context = self.context;
        if let Some(followed) = self.table.get_mut(context.place()) {
            if followed.context == context && followed.token == token && followed.trust > 0 {
                followed.trust = followed.trust.saturating_add(1).min(MOST_TRUST);
            } else if followed.trust > 1 {
                followed.trust = followed.trust.saturating_sub(1);
            } else {
                *followed = Followed {
                    context,
                    token,
                    trust: 1,
                };
            }
        }
        self.context = context.push(token, self.padding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words at a pace: after two rounds nothing is wrong any more.
    #[test]
    fn a_rhythm_is_learnt() {
        let mut guesses = Guesses::new(32);
        let rhythm = [32, 32, 32, 33, 1000];
        let mut wrong = 0;
        for (i, &token) in rhythm.iter().cycle().take(50).enumerate() {
            if guesses.after(guesses.context()) != token && i >= 10 {
                wrong += 1;
            }
            guesses.learn(token);
        }
        assert_eq!(wrong, 0);
    }

    #[test]
    fn a_chain_of_guesses_goes_on_from_its_own() {
        let mut guesses = Guesses::new(32);
        for token in [33, 7, 32, 32, 33, 7, 32, 32] {
            guesses.learn(token);
        }
        let mut context = guesses.context();
        let mut chain = [0; 6];
        for token in &mut chain {
            *token = guesses.after(context);
            context = guesses.behind(context, *token);
        }
        assert_eq!(chain, [33, 7, 32, 32, 33, 7]);
    }
}
