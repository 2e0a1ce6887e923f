//! What the page of every experiment has: head, data, parts, settings.
//!
//! A page is one HTML file: no script, no other file, light and dark, and fit to be printed. Its
//! frame stands in `templates/experiment.html`, which the template of an experiment extends. What
//! comes from the user (names, paths, settings) is escaped by the templates, and by the charts in
//! theirs.

mod settings;
mod table;

pub(crate) use self::table::{Column, Table};

use self::settings::SettingGroup;
use super::date::readable;
use super::figure::Figure;
use super::funnel::funnel;
use super::ground::Ground;
use super::numerals::duration;

/// The page's share of a [`Ground`].
pub(super) struct GroundPage<'r> {
    pub(super) title: &'r str,
    pub(super) experiment: &'r str,
    pub(super) date: String,
    pub(super) version: &'r str,
    pub(super) command: Option<&'r str>,
    pub(super) machine: String,
    pub(super) total_time: Option<String>,
    pub(super) text: String,
    pub(super) curation: Option<String>,
    pub(super) funnel: Option<Figure>,
    pub(super) parts: Table,
    pub(super) warnings: Option<Table>,
    pub(super) settings: Vec<SettingGroup>,
}

/// A number of the page's head.
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl<'r> GroundPage<'r> {
    pub(super) fn of(ground: &'r Ground) -> Self {
        Self {
            title: &ground.title,
            experiment: &ground.experiment,
            date: readable(&ground.date),
            version: &ground.version,
            command: ground.command.as_deref(),
            machine: ground.machine_sentence(),
            total_time: ground.total_seconds().map(duration),
            text: ground.text_sentence(),
            curation: ground.curation_sentence(),
            funnel: ground.curation.as_ref().map(funnel),
            parts: table::parts(&ground.parts),
            warnings: table::warnings(&ground.parts),
            settings: settings::settings(&ground.settings),
        }
    }
}
