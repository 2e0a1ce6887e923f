//! The settings, line by line.

use serde_json::Value;

/// Settings with the same first key.
pub(crate) struct SettingGroup {
    pub(crate) lines: Vec<String>,
}

/// The settings as lines `key = value` with the path of each key, those of one first key together.
pub(super) fn settings(settings: &Value) -> Vec<SettingGroup> {
    let groups = match settings {
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.as_str(), value)).collect()
        }
        Value::Null => Vec::new(),
        other => vec![("settings", other)],
    };
    groups
        .into_iter()
        .map(|(key, value)| {
            let mut lines = Vec::new();
            push_setting_lines(key, value, &mut lines);
            SettingGroup { lines }
        })
        .filter(|group| !group.lines.is_empty())
        .collect()
}

fn push_setting_lines(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                push_setting_lines(&format!("{path}.{key}"), value, lines);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (number, value) in values.iter().enumerate() {
                push_setting_lines(&format!("{path}.{number}"), value, lines);
            }
        }
        Value::Null => {}
        // A table without keys is on all the same.
        Value::Object(_) => lines.push(format!("{path} = on")),
        value => lines.push(format!("{path} = {value}")),
    }
}
