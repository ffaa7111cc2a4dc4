//! Encoder of the OpenMetrics text format.

use std::fmt;

use a2a_actors::HistogramSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Prefix of every metric name.
const PREFIX: &str = "openclaw_a2a";

/// Labels of one sample, fixed at compile time.
pub(super) type Labels = Vec<(&'static str, &'static str)>;

/// A metric family: samples of one name.
#[derive(Debug)]
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Counters(Vec<(Labels, u64)>),
    Gauges(Vec<(Labels, f64)>),
    Histograms(Vec<(Labels, HistogramSnapshot)>),
}

impl Family {
    /// A counter; `_total` is appended to its name.
    pub(super) fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::counters(name, help, [(Labels::new(), value)])
    }

    pub(super) fn counters(
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) -> Self {
        Self { name, help, values: Values::Counters(values.into_iter().collect()) }
    }

    /// A gauge.
    pub(super) fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self::gauges(name, help, [(Labels::new(), value)])
    }

    pub(super) fn gauges(
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> Self {
        Self { name, help, values: Values::Gauges(values.into_iter().collect()) }
    }

    pub(super) fn histogram(
        name: &'static str,
        help: &'static str,
        value: HistogramSnapshot,
    ) -> Self {
        Self::histograms(name, help, [(Labels::new(), value)])
    }

    pub(super) fn histograms(
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, HistogramSnapshot)>,
    ) -> Self {
        Self { name, help, values: Values::Histograms(values.into_iter().collect()) }
    }

    fn write(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.values {
            Values::Counters(_) => MetricType::Counter,
            Values::Gauges(_) => MetricType::Gauge,
            Values::Histograms(_) => MetricType::Histogram,
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        match &self.values {
            Values::Counters(values) => each(&mut family, values, |metric, value| {
                metric.encode_counter::<NoLabelSet, _, f64>(value, None)
            }),
            Values::Gauges(values) => {
                each(&mut family, values, |metric, value| metric.encode_gauge(value))
            }
            Values::Histograms(values) => each(&mut family, values, |metric, value| {
                let HistogramSnapshot { sum, count, buckets } = value;
                metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
            }),
        }
    }
}

fn each<T>(
    family: &mut MetricEncoder<'_>,
    values: &[(Labels, T)],
    write: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in values {
        if labels.is_empty() {
            write(family, value)?;
        } else {
            write(&mut family.encode_family(labels)?, value)?;
        }
    }
    Ok(())
}

/// All families of one scrape.
#[derive(Debug)]
struct Exposition(Vec<Family>);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.write(&mut encoder))
    }
}

/// Encodes the families.
///
/// # Errors
/// Never, as it writes to memory.
pub(super) fn write(families: Vec<Family>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Exposition(families)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_format_asks_for() {
        let families = vec![
            Family::counter("sent", "What was sent", 3),
            Family::gauges("open", "What is open", [(vec![("kind", "a"), ("way", "b")], 0.5)]),
            Family::histogram(
                "took_seconds",
                "How long it took",
                HistogramSnapshot {
                    sum: 0.5,
                    count: 2,
                    buckets: vec![(0.1, 1), (f64::INFINITY, 1)],
                },
            ),
        ];
        let expected = "\
# HELP openclaw_a2a_sent What was sent
# TYPE openclaw_a2a_sent counter
openclaw_a2a_sent_total 3
# HELP openclaw_a2a_open What is open
# TYPE openclaw_a2a_open gauge
openclaw_a2a_open{kind=\"a\",way=\"b\"} 0.5
# HELP openclaw_a2a_took_seconds How long it took
# TYPE openclaw_a2a_took_seconds histogram
openclaw_a2a_took_seconds_sum 0.5
openclaw_a2a_took_seconds_count 2
openclaw_a2a_took_seconds_bucket{le=\"0.1\"} 1
openclaw_a2a_took_seconds_bucket{le=\"+Inf\"} 2
# EOF
";
        assert_eq!(write(families).unwrap(), expected);
    }
}
