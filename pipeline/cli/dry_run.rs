//! What `--dry-run` prints: the resolved configuration with the source of each value, and the plan.
//!
//! The configuration is shown as the TOML that would give the same run, each value with its origin
//! beside it; the plan is what the stage's library derives from it without doing the work. As JSON
//! the plan's keys stand at the top, with `config` and `config_sources` beside them.

use anyhow::Context;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::Resolved;
use crate::{GlobalArgs, output};

/// Columns that the values of a configuration take before their origins move right.
const MAX_VALUE_WIDTH: usize = 60;

/// Entries of a list in a plan that the table shows.
const MAX_ENTRIES: usize = 10;

/// Values of an entry that fit into one line.
const MAX_VALUES_IN_A_ROW: usize = 5;

/// A resolved configuration with the origin of each value.
#[derive(Debug, Serialize)]
pub(crate) struct ResolvedConfig {
    config: Value,
    config_sources: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct DryRun<'a, P> {
    #[serde(flatten)]
    plan: &'a P,
    #[serde(flatten)]
    resolved: &'a ResolvedConfig,
}

impl ResolvedConfig {
    pub(crate) fn of<T: Serialize>(resolved: &Resolved<T>) -> anyhow::Result<Self> {
        let config =
            serde_json::to_value(&resolved.config).context("cannot show the configuration")?;
        Ok(Self { config_sources: resolved.origins.of_values(&config), config })
    }

    /// Prints the configuration and `plan`, as JSON or as a table.
    pub(crate) fn print(&self, plan: &impl Serialize, global: &GlobalArgs) -> anyhow::Result<()> {
        if global.json {
            return output::json(&DryRun { plan, resolved: self });
        }
        let value = serde_json::to_value(plan).context("cannot show the plan")?;
        self.print_as(plan, &plan_table(&value), global)
    }

    /// Prints the configuration and `plan`, as JSON or as the text that is made of it.
    pub(crate) fn print_as(
        &self,
        plan: &impl Serialize,
        text: &str,
        global: &GlobalArgs,
    ) -> anyhow::Result<()> {
        if global.json {
            return output::json(&DryRun { plan, resolved: self });
        }
        output::text(&format!("{}\nPLAN\n\n{text}", self.to_toml()))
    }

    /// The configuration as TOML, the origin of each value to its right.
    fn to_toml(&self) -> String {
        let mut lines = Vec::new();
        self.section_lines("", "", &self.config, &mut lines);
        let width = lines.iter().filter(|line| !line.origin.is_empty());
        let width = width.map(|line| line.text.chars().count()).max().unwrap_or(0);
        let width = width.min(MAX_VALUE_WIDTH);
        let lines = lines.iter().map(|Line { text, origin }| match origin.as_str() {
            "" => format!("{text}\n"),
            origin => format!("{text:<width$}  # {origin}\n"),
        });
        lines.collect::<String>().trim_start().to_owned()
    }

    /// The lines of the section at `path`, whose values come before its sections.
    fn section_lines(&self, path: &str, header: &str, section: &Value, lines: &mut Vec<Line>) {
        let Value::Object(entries) = section else { return };
        let (sections, values): (Vec<_>, Vec<_>) =
            entries.iter().partition(|(_, value)| is_section(value));
        if !header.is_empty() && (!values.is_empty() || sections.is_empty()) {
            lines.push(Line::bare(""));
            lines.push(Line::bare(header));
        }
        let below =
            |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        for (key, value) in values.into_iter().filter(|(_, value)| !value.is_null()) {
            let origin = self.config_sources.get(&below(key)).and_then(Value::as_str);
            let (text, origin) = (format!("{key} = {}", toml_of(value)), origin.unwrap_or(""));
            lines.push(Line { text, origin: origin.to_owned() });
        }
        for (key, value) in sections {
            let path = below(key);
            let name: Vec<_> =
                path.split('.').filter(|key| key.parse::<usize>().is_err()).collect();
            let name = name.join(".");
            match value {
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        let path = format!("{path}.{index}");
                        self.section_lines(&path, &format!("[[{name}]]"), item, lines);
                    }
                }
                section => self.section_lines(&path, &format!("[{name}]"), section, lines),
            }
        }
    }
}

/// A line of TOML and what stands to its right.
struct Line {
    text: String,
    origin: String,
}

impl Line {
    fn bare(text: &str) -> Self {
        Self { text: text.to_owned(), origin: String::new() }
    }
}

fn is_section(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().any(Value::is_object),
        _ => false,
    }
}

/// A plain value as TOML, which writes numbers, words and texts as JSON does.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// Prints a plan that depends on no configuration, as JSON or as a table.
pub(crate) fn print_plan(plan: &impl Serialize, global: &GlobalArgs) -> anyhow::Result<()> {
    if global.json {
        return output::json(plan);
    }
    let plan = serde_json::to_value(plan).context("cannot show the plan")?;
    output::text(&format!("PLAN\n\n{}", plan_table(&plan)))
}

/// A plan as lines of names and values with their units.
pub(crate) fn plan_table(plan: &Value) -> String {
    let mut rows = Vec::new();
    plan_rows(plan, "", false, &mut rows);
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, value)| format!("{name:<width$}  {value}"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The rows of a plan: the name of each value, and the value with its unit.
fn plan_rows(plan: &Value, indent: &str, is_bytes: bool, rows: &mut Vec<(String, String)>) {
    let Value::Object(entries) = plan else { return };
    for (key, value) in entries {
        let is_bytes = is_bytes || counts_bytes(key);
        let name = format!("{indent}{}", words_of(key));
        match value {
            Value::Object(_) => {
                rows.push((name, String::new()));
                plan_rows(value, &format!("{indent}  "), is_bytes, rows);
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                rows.push((name, HumanCount(items.len() as u64).to_string()));
                list_rows(items, &format!("{indent}  "), rows);
            }
            // A seed is a name, not an amount.
            value if key == "seed" => rows.push((name, value.to_string())),
            value => rows.push((name, shown(value, is_bytes))),
        }
    }
}

/// The rows of a list: one for an entry of few plain values, several for another.
fn list_rows(items: &[Value], indent: &str, rows: &mut Vec<(String, String)>) {
    for item in items.iter().take(MAX_ENTRIES) {
        let Value::Object(entries) = item else { continue };
        let entries: Map<_, _> = entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let mut values = entries.iter();
        let name = values.next().map_or_else(String::new, |(key, value)| match value {
            Value::String(name) => name.clone(),
            value => format!("{} {}", words_of(key), shown(value, false)),
        });
        if entries.len() <= MAX_VALUES_IN_A_ROW && !entries.values().any(is_section) {
            let values = values.map(|(key, value)| match shown(value, counts_bytes(key)) {
                size if counts_bytes(key) => size,
                value => format!("{} {value}", words_of(key)),
            });
            rows.push((format!("{indent}{name}"), values.collect::<Vec<_>>().join(", ")));
        } else {
            rows.push((format!("{indent}{name}"), String::new()));
            let rest = values.map(|(key, value)| (key.clone(), value.clone())).collect();
            plan_rows(&Value::Object(rest), &format!("{indent}  "), false, rows);
        }
    }
    if let Some(more) = items.len().checked_sub(MAX_ENTRIES).filter(|&more| more > 0) {
        rows.push((format!("{indent}and {more} more, listed by --json"), String::new()));
    }
}

fn words_of(key: &str) -> String {
    // Two names that scripts read mean what the paper counts.
    let paper = key.strip_suffix("_per_step").filter(|key| key.starts_with("all_reduce"));
    match paper {
        Some(key) => format!("{} of layers per micro-batch", key.replace('_', " ")),
        None => key.replace('_', " "),
    }
}

fn counts_bytes(key: &str) -> bool {
    key.split('_').any(|word| word == "bytes")
}

fn shown(value: &Value, is_bytes: bool) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            items.iter().map(|item| shown(item, is_bytes)).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(bytes), _) if is_bytes => HumanBytes(bytes).to_string(),
            (Some(count), _) => HumanCount(count).to_string(),
            (None, Some(number)) => rounded(number),
            (None, None) => number.to_string(),
        },
        value => value.to_string(),
    }
}

/// A number beyond which nobody counts zeros: its power of ten is written.
const LARGE: f64 = 1e12;

/// A number with two decimals, or two figures where it is small; in full where it is short.
fn rounded(number: f64) -> String {
    let full = number.to_string();
    if full.len() <= 6 {
        return full;
    }
    if number.abs() >= LARGE {
        return format!("{number:.3e}");
    }
    let zeros = -number.abs().log10().floor();
    let decimals = if zeros.is_finite() && zeros > 1.0 { zeros as usize + 1 } else { 2 };
    format!("{number:.decimals$}")
}
