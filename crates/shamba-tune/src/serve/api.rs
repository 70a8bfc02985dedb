//! The questions of the page and their answers, in JSON.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /api/start` | | [`Start`](super::source::Start): the first inputs, what was measured |
//! | `POST /api/design` | inputs by the names of the flags, as text or numbers | [`Designs`] |
//! | `POST /api/balance` | `{"changed": NAME, "shares": {NAME: SHARE}}` | the shares, summing to 1 |
//! | `POST /api/measure` | `{}` | as the start, the database asked anew |
//! | `POST /api/stop` | `{}` | `{}`, and serving ends |
//!
//! What cannot be answered is `{"error", "hint", "fields"}`: with status 422 for inputs that make
//! no sense, `fields` being those to look at.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shamba_model::cost::{Costs, Design, costs};
use shamba_model::presets;
use shamba_model::trade_off::{self, trade_off};
use shamba_model::tree::MergePolicy;

use super::{Server, balance};
use crate::answer::{self, Answer};
use crate::error::Error;
use crate::inputs::Inputs;
use crate::problem::{Problem, explain};

/// What cannot be answered.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    hint: Option<String>,
    /// Inputs to look at.
    fields: Vec<String>,
}

/// A refusal in one sentence.
pub(super) fn refusal(status: StatusCode, error: impl Into<String>) -> Refusal {
    Refusal {
        status,
        error: error.into(),
        hint: None,
        fields: Vec::new(),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json(self.status, &self)
    }
}

type Answered = Result<Response, Refusal>;

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let kind = HeaderValue::from_static("application/json");
    match serde_json::to_vec(body) {
        Ok(body) => (status, [(header::CONTENT_TYPE, kind)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Of a path that there is not.
pub(super) async fn nothing() -> Refusal {
    refusal(StatusCode::NOT_FOUND, "there is nothing here")
}

/// Of a method that a path does not have.
pub(super) async fn no_method() -> Refusal {
    refusal(StatusCode::METHOD_NOT_ALLOWED, "not with this method")
}

/// What the page begins with.
pub(super) async fn start(State(server): State<Arc<Server>>) -> Response {
    json(StatusCode::OK, &server.source.start())
}

/// Ends serving once this is answered.
pub(super) async fn stop(State(server): State<Arc<Server>>) -> Response {
    server.stop.notify_one();
    json(StatusCode::OK, &Map::new())
}

/// Asks the database anew.
pub(super) async fn measure(State(server): State<Arc<Server>>) -> Answered {
    let of = server.clone();
    let start = work(&server, move || {
        of.source.measure().map_err(|error| Refusal {
            status: StatusCode::CONFLICT,
            ..told(&error)
        })
    });
    Ok(json(StatusCode::OK, &start.await?))
}

/// The designs for inputs.
pub(super) async fn design(
    State(server): State<Arc<Server>>,
    body: Result<Bytes, BytesRejection>,
) -> Answered {
    let given: Map<String, Value> = read(body)?;
    let of = server.clone();
    let designs = work(&server, move || designs(given, of.source.positive())).await?;
    Ok(json(StatusCode::OK, &designs))
}

/// Shares of operations, and the one that was changed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unbalanced {
    changed: String,
    shares: Map<String, Value>,
}

/// The shares with all but the one changed scaled so that they sum to 1.
pub(super) async fn balanced(body: Result<Bytes, BytesRejection>) -> Answered {
    let Unbalanced { changed, shares } = read(body)?;
    let known = balance::names();
    if let Some(other) = shares
        .keys()
        .chain([&changed])
        .find(|name| !known.contains(&name.as_str()))
    {
        return Err(refusal(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("`{other}` is not a share of operations"),
        ));
    }
    let shares = balance::balanced(&changed, &inputs(shares)?).map_err(|error| told(&error))?;
    let shares: Map<String, Value> = shares
        .into_iter()
        .map(|(name, share)| (name.to_owned(), Value::from(share)))
        .collect();
    Ok(json(StatusCode::OK, &shares))
}

/// Does it on a thread of its own, few at once. A panic there is told, and ends nothing.
async fn work<T: Send + 'static>(
    server: &Arc<Server>,
    what: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let _turn = server.workers.acquire().await;
    let done = tokio::task::spawn_blocking(what).await;
    done.unwrap_or_else(|_| {
        Err(refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this is a defect of the model; please report it with the inputs",
        ))
    })
}

fn read<T: for<'a> Deserialize<'a>>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|error| refusal(error.status(), error.body_text()))?;
    serde_json::from_slice(&body)
        .map_err(|error| refusal(StatusCode::BAD_REQUEST, error.to_string()))
}

/// Reads inputs one by one, so as to know which makes no sense. Empty text is no input.
fn inputs(given: Map<String, Value>) -> Result<Inputs, Refusal> {
    let mut all = Inputs::default();
    for (name, value) in given {
        let value = match value {
            Value::String(text) if text.trim().is_empty() => continue,
            Value::String(text) => Value::String(text.trim().to_owned()),
            other => other,
        };
        let one = Map::from_iter([(name.clone(), value)]);
        let one: Inputs = serde_json::from_value(Value::Object(one)).map_err(|error| Refusal {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            error: format!("{name}: {error}"),
            hint: None,
            fields: vec![name],
        })?;
        // `over` takes ranges for one input said in two ways; here both are to be seen.
        let ranges = (
            one.range_entries.or(all.range_entries),
            one.selectivity.or(all.selectivity),
        );
        all = one.over(all);
        (all.range_entries, all.selectivity) = ranges;
    }
    Ok(all)
}

/// What is wrong with inputs.
fn told(error: &Error) -> Refusal {
    let (hint, error) = (error.hint(), error.to_string());
    Refusal {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        fields: fields(&error, hint.unwrap_or_default()),
        hint: hint.map(str::to_owned),
        error,
    }
}

/// The inputs that a message is about: all shares, or the first that it names, or those that its
/// hint names.
fn fields(error: &str, hint: &str) -> Vec<String> {
    if error.starts_with("the shares of operations") {
        return balance::names().map(str::to_owned).to_vec();
    }
    let names = names();
    let words = |text: &str, flags: bool| -> Vec<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '-'))
            .filter(|word| !flags || word.starts_with("--"))
            .map(|word| word.trim_start_matches("--").to_owned())
            .filter(|word| names.contains(word))
            .collect()
    };
    match words(error, false).into_iter().next() {
        Some(first) => vec![first],
        None => words(hint, true),
    }
}

/// The names of all inputs.
fn names() -> Vec<String> {
    match serde_json::to_value(Inputs::default()) {
        Ok(Value::Object(map)) => map.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}

/// All there is to show for inputs.
#[derive(Debug, Serialize)]
struct Designs {
    #[serde(flatten)]
    answer: Answer,
    /// The trade-off of lookups and updates with the present design's memory split and filters.
    present_curve: Vec<Point>,
    /// The same with the best design's.
    best_curve: Vec<Point>,
    /// The defaults of known stores.
    stores: Vec<Store>,
    /// Throughput of the best design over that of the present one.
    speedup: f64,
    /// Pages that a lookup of those measured costs in the present design: of their mix of absent
    /// and existing keys.
    measured_lookup: Option<f64>,
    /// The same question as a command.
    command: String,
}

/// A design on a trade-off curve.
#[derive(Debug, Serialize)]
struct Point {
    policy: MergePolicy,
    size_ratio: u32,
    levels: u32,
    /// Pages that a point lookup costs.
    lookup: f64,
    /// Pages that an update costs.
    update: f64,
    /// Whether no other point of the curve is better.
    efficient: bool,
}

impl From<trade_off::Point> for Point {
    fn from(point: trade_off::Point) -> Self {
        Point {
            policy: point.design.policy,
            size_ratio: point.design.size_ratio,
            levels: point.costs.levels,
            lookup: point.costs.point_lookup,
            update: point.costs.update,
            efficient: point.efficient,
        }
    }
}

/// A store's defaults for these inputs.
#[derive(Debug, Serialize)]
struct Store {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<StorePlan>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct StorePlan {
    #[serde(flatten)]
    design: Design,
    bits_per_key: f64,
    costs: Costs,
}

fn designs(given: Map<String, Value>, positive: Option<f64>) -> Result<Designs, Refusal> {
    let wrong = |error: Error| told(&error);
    let problem = Problem::new(inputs(given)?, None).map_err(wrong)?;
    let answer = answer::answer(&problem, None).map_err(wrong)?;
    let (environment, workload) = (&problem.request.environment, &problem.request.workload);
    let curve = answer::curve(problem.filter).map_err(wrong)?;
    let along = |design: &Design| -> Result<Vec<Point>, Refusal> {
        let points = trade_off(design, &MergePolicy::ALL, environment, workload, curve);
        let points = points.map_err(|error| wrong(explain(error)))?;
        Ok(points.into_iter().map(Point::from).collect())
    };
    let store = |preset: &presets::Preset| {
        let plan = preset
            .design(environment, problem.present.buffer_bytes)
            .and_then(|design| {
                let costs = costs(&design, environment, workload, curve)?;
                Ok(StorePlan {
                    design,
                    bits_per_key: preset.bits_per_key,
                    costs,
                })
            });
        let (plan, why) = match plan {
            Ok(plan) => (Some(plan), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Store {
            name: preset.name,
            plan,
            why,
        }
    };
    let now = answer.present.costs;
    let mixed =
        |positive: f64| positive * now.existing_lookup + (1.0 - positive) * now.empty_lookup;
    Ok(Designs {
        speedup: answer.best.costs.throughput / now.throughput,
        measured_lookup: positive.map(mixed),
        present_curve: along(&answer.present.design)?,
        best_curve: along(&answer.best.design)?,
        stores: presets::ALL.iter().map(store).collect(),
        command: command(&answer.input),
        answer,
    })
}

/// The command that asks the same.
fn command(input: &Inputs) -> String {
    let mut command = "shamba tune".to_owned();
    if let Ok(Value::Object(map)) = serde_json::to_value(input) {
        for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            command += &format!(" --{name} {value}");
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Number;

    #[test]
    fn messages_name_their_inputs() {
        for (error, hint, want) in [
            (
                "entries is 0, but must be above 0",
                "",
                &["entries"] as &[&str],
            ),
            (
                "a memory of 1 bytes does not hold one page of 4096 bytes",
                "give more --memory",
                &["memory"],
            ),
            (
                "present-write-buffer is 5 bytes, but memory is 3 and a page 4",
                "",
                &["present-write-buffer"],
            ),
            (
                "the shares of operations sum to 2: empty-lookups 2",
                "",
                &[
                    "empty-lookups",
                    "existing-lookups",
                    "range-lookups",
                    "updates",
                ],
            ),
            (
                "no design keeps the update cost at or below 1 pages",
                "raise --max-update-cost to 2, or give more --memory",
                &["max-update-cost", "memory"],
            ),
            ("levels is 70, but must be at most 64", "", &[]),
        ] {
            assert_eq!(fields(error, hint), want, "{error}");
        }
    }

    #[test]
    fn inputs_say_which_makes_no_sense() {
        let given = |text: &str| serde_json::from_str(text).unwrap();
        let read = inputs(given(
            r#"{"entries": " 1M ", "filter": "ribbon", "memory": ""}"#,
        ));
        let read = read.unwrap();
        assert_eq!((read.entries, read.memory), (Some(Number(1e6)), None));
        let both = inputs(given(r#"{"range-entries": 5, "selectivity": "1%"}"#)).unwrap();
        assert!(both.range_entries.is_some() && both.selectivity.is_some());
        for (text, field) in [
            (r#"{"entries": "many"}"#, "entries"),
            (r#"{"entries": 1, "filter": "oak"}"#, "filter"),
            (r#"{"entries": 1, "memory": [1]}"#, "memory"),
            (r#"{"colour": "red"}"#, "colour"),
        ] {
            let refused = inputs(given(text)).unwrap_err();
            assert_eq!(refused.fields, [field], "{text}");
            assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        }
    }
}
