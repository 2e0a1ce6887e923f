//! Which columns of a Parquet file hold the texts, the identifiers and the titles.
//!
//! A column goes by its name at the root of the schema. One whose type cannot be what it is
//! configured for is refused with that type: its documents would lose something without a word.

use std::path::Path;

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::schema::types::ColumnDescPtr;

use super::ParquetConfig;
use crate::CorpusError;

/// Something of each column that matters.
pub(super) struct Columns<T> {
    pub(super) text: T,
    pub(super) id: Option<T>,
    pub(super) title: Option<T>,
}

impl Columns<usize> {
    /// The places of the configured columns among all of a file. It may lack the column of
    /// identifiers, as a record may.
    pub(super) fn find(
        path: &Path,
        columns: &[ColumnDescPtr],
        config: &ParquetConfig,
    ) -> Result<Self, CorpusError> {
        let wrong = |key, name: &str, problem| CorpusError::WrongColumn {
            path: path.to_owned(),
            column: name.to_owned(),
            problem,
            key,
        };
        let find_text = |key, name: &str| match find(columns, name) {
            Some(Found::Values(index)) if is_text(&columns[index]) => Ok(index),
            Some(Found::Nested) | None => Err(wrong(key, name, absent(columns))),
            Some(Found::Values(_)) => Err(wrong(key, name, "no text".to_owned())),
        };
        let find_id = |key, name: &str| match find(columns, name) {
            None => Ok(None),
            Some(Found::Values(index)) if is_identifier(&columns[index]) => Ok(Some(index)),
            Some(Found::Values(index)) => Err(wrong(key, name, no_id(&type_of(&columns[index])))),
            Some(Found::Nested) => Err(wrong(key, name, no_id("list or structure"))),
        };
        Ok(Self {
            text: find_text("text_column", &config.text_column)?,
            id: find_id("id_column", &config.id_column)?,
            title: match &config.title_column {
                Some(name) => Some(find_text("title_column", name)?),
                None => None,
            },
        })
    }
}

/// What stands under a name at the root of a schema.
enum Found {
    /// The column at this place, with one value for each row, or `null`.
    Values(usize),
    /// A list or a structure.
    Nested,
}

fn find(columns: &[ColumnDescPtr], name: &str) -> Option<Found> {
    let index = columns
        .iter()
        .position(|column| column.path().parts().first().is_some_and(|part| part == name))?;
    let column = &columns[index];
    let is_flat = column.path().parts().len() == 1 && column.max_rep_level() == 0;
    Some(if is_flat { Found::Values(index) } else { Found::Nested })
}

fn absent(columns: &[ColumnDescPtr]) -> String {
    let mut present: Vec<&str> = columns
        .iter()
        .filter_map(|column| column.path().parts().first())
        .map(String::as_str)
        .collect();
    present.dedup();
    format!("absent (columns present: {})", present.join(", "))
}

fn no_id(type_name: &str) -> String {
    format!("of type {type_name}, and identifiers are strings or whole numbers")
}

/// `DOUBLE`, or `INT64 (Timestamp)`.
fn type_of(column: &ColumnDescPtr) -> String {
    let physical = column.physical_type();
    let Some(logical) = column.logical_type_ref() else { return physical.to_string() };
    let logical = format!("{logical:?}");
    let name = logical.split(|letter: char| !letter.is_ascii_alphanumeric()).next();
    format!("{physical} ({})", name.unwrap_or_default())
}

fn is_text(column: &ColumnDescPtr) -> bool {
    column.physical_type() == Type::BYTE_ARRAY
        && matches!(
            column.logical_type_ref(),
            None | Some(LogicalType::String | LogicalType::Json | LogicalType::Enum)
        )
}

fn is_identifier(column: &ColumnDescPtr) -> bool {
    let is_number = matches!(column.physical_type(), Type::INT32 | Type::INT64)
        && matches!(column.logical_type_ref(), None | Some(LogicalType::Integer(_)));
    is_number || is_text(column)
}

/// Whether the whole numbers of a column have no sign.
pub(super) fn is_unsigned(column: &ColumnDescPtr) -> bool {
    let by_logical_type = matches!(
        column.logical_type_ref(),
        Some(LogicalType::Integer(integer)) if !integer.is_signed
    );
    by_logical_type
        || matches!(
            column.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        )
}
