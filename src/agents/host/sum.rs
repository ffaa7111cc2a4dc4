//! Arithmetic on two whole numbers, such as `2 + 2`.

/// Accepted before the numbers.
const BEFORE: &[&str] = &["what is", "what's", "whats", "how much is", "calculate", "compute"];

/// Two operands and an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    left: i64,
    sign: char,
    right: i64,
}

impl Sum {
    pub(super) fn of(text: &str) -> Option<Self> {
        let lower = text.trim().trim_end_matches(['?', '=', '.', '!', ' ']).to_lowercase();
        let bare = BEFORE.iter().find_map(|words| lower.strip_prefix(words)).unwrap_or(&lower);
        let bare = bare.trim();
        // A leading sign belongs to the first number.
        let at = bare.char_indices().skip(1).find(|(_, c)| "+-*x×/÷".contains(*c))?;
        let (left, right) = (&bare[..at.0], &bare[at.0 + at.1.len_utf8()..]);
        Some(Self {
            left: left.trim().parse().ok()?,
            sign: at.1,
            right: right.trim().parse().ok()?,
        })
    }

    /// The calculation with its result.
    pub(super) fn worked_out(self) -> String {
        let Self { left, sign, right } = self;
        let (a, b) = (i128::from(left), i128::from(right));
        let result = match sign {
            '+' => (a + b).to_string(),
            '-' => (a - b).to_string(),
            '*' | 'x' | '×' => (a * b).to_string(),
            _ if b == 0 => {
                return format!(
                    "{left} {sign} {right} has no result: nothing can be divided by 0."
                );
            }
            _ if a % b == 0 => (a / b).to_string(),
            _ => format!("{}", left as f64 / right as f64),
        };
        format!("{left} {sign} {right} = {result}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_worked_out() {
        for (text, expected) in [
            ("What is 2 + 2?", "2 + 2 = 4"),
            ("2+2", "2 + 2 = 4"),
            ("-3 - 4 =", "-3 - 4 = -7"),
            ("how much is 7 / 2?", "7 / 2 = 3.5"),
            ("6 x 7", "6 x 7 = 42"),
            (
                "9223372036854775807 * 9223372036854775807",
                "9223372036854775807 * 9223372036854775807 = 85070591730234615847396907784232501249",
            ),
        ] {
            assert_eq!(Sum::of(text).map(Sum::worked_out).as_deref(), Some(expected), "{text}");
        }
        assert!(Sum::of("1 / 0").unwrap().worked_out().contains("by 0"));
    }

    #[test]
    fn texts_without_a_sum_are_rejected() {
        for text in [
            "",
            "2",
            "2 +",
            "+",
            "a + b",
            "what is a x-ray",
            "1 + 2 + 3",
            "9223372036854775808 + 1",
        ] {
            assert_eq!(Sum::of(text), None, "{text}");
        }
    }
}
