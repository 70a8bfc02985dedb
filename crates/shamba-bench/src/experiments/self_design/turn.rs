//! A workload that turns from writing to reading: the automatic mode beside fixed designs, over a
//! horizon that the model gives. Costs are pages read and written.
use super::subject::{Pages, Shares, Subject};
use super::{Settings, copy, loaded, name, standard};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::{Error, Result};
use shamba::{Advice, AutoDesign, Design};
use std::path::Path;
use std::time::Duration;

/// Points of a course over time.
const WINDOWS: u64 = 60;

/// The turn to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Turn {
    #[command(flatten)]
    pub(super) settings: Settings,
    /// How many times as long as a move needs to pay either phase is.
    #[arg(long, default_value_t = 3.0)]
    pub(super) times: f64,
}

const WRITING: Shares = Shares {
    empty: 0.02,
    existing: 0.02,
    ranges: 0.0,
};

const READING: Shares = Shares {
    empty: 0.1,
    existing: 0.1,
    ranges: 0.7,
};

/// Operations after which automatic mode asks again.
const EVERY: u64 = 2000;

/// Operations that automatic mode takes to see a turn, at most: three answers in a row, and a
/// half-life of what was done before.
const DELAY: f64 = 3.0 * EVERY as f64 + 8192.0;

/// What the model says of the two designs, and how long phases must be for a move to pay. Costs are
/// in pages read and written.
struct Horizon {
    /// The designs that are best for writing and for reading.
    designs: [Design; 2],
    /// Cost of an operation of each phase with the design for it, and with the other.
    own: [f64; 2],
    other: [f64; 2],
    /// Cost of the move.
    moving: f64,
}

impl Horizon {
    /// Asks the engine: for the best design for writing; there, for the best for reading; there,
    /// what writing costs.
    fn ask(settings: &Settings, dir: &Path, base: &Path) -> Result<Self> {
        let at = tempfile::tempdir_in(dir)?;
        let mut subject = copy(settings, base, &at.path().join("db"), standard(settings))?;
        let mut ask = |shares| -> Result<Advice> {
            subject.run(shares, settings.operations)?;
            let advice = subject.advice()?.ok_or_else(too_little)?;
            subject.move_to(advice.best.design)?;
            Ok(advice)
        };
        let writing = ask(WRITING)?;
        let reading = ask(READING)?;
        let back = ask(WRITING)?;
        Ok(Horizon {
            designs: [writing.best.design, reading.best.design],
            own: [back.best.costs.average, reading.best.costs.average],
            other: [back.present.costs.average, reading.present.costs.average],
            moving: reading.move_cost(),
        })
    }

    /// What an operation of a phase costs less with the design for it.
    fn gains(&self) -> [f64; 2] {
        [0, 1].map(|phase| (self.other[phase] - self.own[phase]).max(f64::MIN_POSITIVE))
    }

    /// What the turn costs automatic mode more than knowing: the move, and lookups until it begins.
    fn turning(&self) -> f64 {
        self.moving + DELAY * self.gains()[1]
    }

    /// Operations of either phase after which its gain has paid for that.
    fn pays_after(&self) -> [f64; 2] {
        self.gains().map(|gain| self.turning() / gain)
    }

    /// The phases, in whole thousands of operations.
    fn phases(&self, times: f64) -> Result<[u64; 2]> {
        let phases = self.pays_after().map(|paid| paid * times);
        if phases.iter().all(|phase| *phase < 1e8) {
            return Ok(phases.map(|phase| (phase / 1000.0).ceil() as u64 * 1000));
        }
        Err(Error::InvalidSetting(
            "both mixes ask for much the same design".into(),
        ))
    }

    fn report(&self, phases: [u64; 2], times: f64) -> Report {
        let mut report = Report::new(
            format!(
                "Horizon by the model, in pages read and written (a page written costs as much as one \
                 read): the turn costs {:.0} for the move and {:.0} for {DELAY} operations until it is \
                 seen; either phase is {times} times as long as its gain takes to pay for that",
                self.moving,
                self.turning() - self.moving,
            ),
            &[
                "phase",
                "best design",
                "pages/op",
                "with the other",
                "gain",
                "pays after",
                "operations",
            ],
        );
        for (phase, what) in ["writing", "reading"].into_iter().enumerate() {
            report.push(vec![
                what.into(),
                name(&self.designs[phase]).into(),
                self.own[phase].into(),
                self.other[phase].into(),
                self.gains()[phase].into(),
                self.pays_after()[phase].into(),
                (phases[phase] as f64).into(),
            ]);
        }
        report
    }
}

fn too_little() -> Error {
    Error::InvalidSetting("too few entries or operations to advise on".into())
}

/// A phase of writing, then one of reading: the automatic mode beside the designs that are best for
/// either, which begin in shape, as does the automatic one, with that for writing. Gives the
/// horizon, the outcome, and the course of the pages.
pub fn turn(turn: &Turn, note: &mut dyn FnMut(String)) -> Result<(Report, Report, Panel)> {
    let settings = &turn.settings;
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let base = loaded(settings, dir.path(), note)?;
    let horizon = Horizon::ask(settings, dir.path(), &base)?;
    let phases = horizon.phases(turn.times)?;
    let (report, panel) = compare(settings, dir.path(), &base, horizon.designs, phases, note)?;
    Ok((horizon.report(phases, turn.times), report, panel))
}

/// Both phases with each of the engines.
fn compare(
    settings: &Settings,
    dir: &Path,
    base: &Path,
    [writing, reading]: [Design; 2],
    phases: [u64; 2],
    note: &mut dyn FnMut(String),
) -> Result<(Report, Panel)> {
    note(format!(
        "{} operations of writing, then {} of reading",
        phases[0], phases[1]
    ));
    let title = format!(
        "{} operations of which 96 % updates, then {} of which 70 % ranges and 20 % lookups",
        phases[0], phases[1]
    );
    let columns = [
        "engine",
        "design at the turn",
        "design at the end",
        "move began after",
        "ended after",
        "pages while writing",
        "pages while reading",
        "pages in all",
        "times automatic's",
        "seconds",
    ];
    let mut report = Report::new(title, &columns);
    let mut panel = Panel {
        title: "pages read and written so far, the move included".to_owned(),
        x: "operations".to_owned(),
        y: "pages".to_owned(),
        ..Panel::default()
    };
    let auto = AutoDesign {
        every: EVERY,
        horizon: phases[1].max(EVERY),
        ..AutoDesign::default()
    };
    let mut runs = Vec::new();
    for (engine, design, auto) in [
        ("best for writing", writing, None),
        ("best for reading", reading, None),
        ("automatic", writing, Some(auto)),
    ] {
        let folder = tempfile::tempdir_in(dir)?;
        let path = folder.path().join("db");
        let mut subject = copy(
            settings,
            base,
            &path,
            standard(settings).with_design(&design),
        )?;
        subject.move_to(design)?;
        drop(subject);
        let mut keyspace = standard(settings).with_design(&design);
        keyspace.auto_design = auto;
        subject = Subject::open(&path, settings, keyspace)?;
        let run = Run::measure(&mut subject, phases)?;
        note(format!(
            "{engine}: {:.0} pages, {:.1?}",
            run.all(),
            run.took
        ));
        panel.series.push(Series {
            name: engine.to_owned(),
            points: run.course.clone(),
        });
        runs.push((engine, run));
    }
    let automatic = runs.last().map_or(1.0, |(_, run)| run.all());
    for (engine, run) in runs {
        let [writing, reading] = run.phases.map(Pages::all);
        report.push(vec![
            engine.into(),
            run.middle.clone().into(),
            run.end.clone().into(),
            run.moved[0].into(),
            run.moved[1].into(),
            writing.into(),
            reading.into(),
            run.all().into(),
            (run.all() / automatic.max(1.0)).into(),
            run.took.as_secs_f64().into(),
        ]);
    }
    Ok((report, panel))
}

/// Both phases of one engine.
struct Run {
    phases: [Pages; 2],
    course: Vec<(f64, f64)>,
    /// The design at the turn and at the end.
    middle: String,
    end: String,
    /// Operations after the turn at which the first move was seen to begin, and to have ended.
    moved: [Option<f64>; 2],
    took: Duration,
}

impl Run {
    fn all(&self) -> f64 {
        self.phases.iter().map(|pages| pages.all()).sum()
    }

    fn measure(subject: &mut Subject, phases: [u64; 2]) -> Result<Self> {
        let start = subject.pages();
        let mut run = Run {
            phases: [Pages::default(); 2],
            course: vec![(0.0, 0.0)],
            middle: String::new(),
            end: String::new(),
            moved: [None; 2],
            took: Duration::ZERO,
        };
        let (mut at_turn, _) = subject.design()?;
        for (phase, shares) in [WRITING, READING].into_iter().enumerate() {
            let before = subject.pages();
            if phase == 1 {
                (at_turn, _) = subject.design()?;
                run.middle = name(&at_turn);
            }
            for window in 1..=WINDOWS {
                let part = |window| phases[phase] * window / WINDOWS;
                run.took += subject.run(shares, part(window) - part(window - 1))?;
                let done = part(window) as f64;
                let (design, moving) = subject.design()?;
                if phase == 1 && design != at_turn {
                    run.moved[0].get_or_insert(done);
                    if !moving {
                        run.moved[1].get_or_insert(done);
                    }
                }
                let before = if phase == 0 { 0.0 } else { phases[0] as f64 };
                let pages = subject.pages().since(start).all();
                run.course.push((before + done, pages));
            }
            run.phases[phase] = subject.pages().since(before);
        }
        run.end = name(&subject.design()?.0);
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::self_design::tests::{number, tiny};

    /// The tiny form of the experiment, with phases shorter than the model's.
    #[test]
    fn the_automatic_mode_follows_a_turn() {
        let (settings, dir) = (tiny(), tempfile::tempdir().unwrap());
        let base = loaded(&settings, dir.path(), &mut |_| {}).unwrap();
        let horizon = Horizon::ask(&settings, dir.path(), &base).unwrap();
        assert!(horizon.gains().iter().all(|gain| *gain > 0.0));
        let designs = horizon.designs;
        let phases = [12_000, 36_000];
        let (report, panel) =
            compare(&settings, dir.path(), &base, designs, phases, &mut |_| {}).unwrap();
        assert_eq!((report.rows.len(), panel.series.len()), (3, 3));
        assert_ne!(report.rows[2][1], report.rows[2][2], "it moved: {report}");
        let began = number(&report, 2, "move began after");
        assert!(began <= number(&report, 2, "ended after"), "{report}");
        assert!(number(&report, 0, "times automatic's") > 1.0, "{report}");
        assert!(panel.series.iter().all(|s| s.points.len() == 121));
    }

    /// Phases are so long that each fixed design loses more in the other phase than the turn costs.
    #[test]
    fn the_horizon_pays_for_the_move() {
        let design = standard(&tiny()).design();
        let horizon = Horizon {
            designs: [design, design],
            own: [0.1, 1.0],
            other: [0.3, 3.0],
            moving: 10_000.0,
        };
        let turning = 10_000.0 + 2.0 * DELAY;
        assert_eq!(horizon.turning(), turning);
        let [writing, reading] = horizon.phases(3.0).unwrap().map(|phase| phase as f64);
        let over = |phase: f64, gain: f64| (phase * gain - 3.0 * turning) / gain;
        for over in [over(writing, 0.2), over(reading, 2.0)] {
            assert!((-1.0..1000.0).contains(&over), "{over} operations too many");
        }
        let alike = Horizon {
            other: horizon.own,
            ..horizon
        };
        assert!(alike.phases(3.0).is_err());
    }
}
