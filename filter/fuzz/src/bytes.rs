//! Bytes of others: configurations, plans, tables that any program may write, and what a client sends.

use std::fmt::Display;
use std::rc::Rc;

use weir_api::Revision;
use weir_filter::config::Config;
use weir_filter::coordination::{GroupTable, Memory, SlotTable};
use weir_filter::engine::{Answer, Engine, IncomingRequest};
use weir_filter::plan;
use weir_filter::request::matching::{Host, host_of};
use weir_filter::request::message::Renamer;
use weir_filter::request::model;
use weir_filter::request::protocol::Pattern;
use weir_filter::request::variant_list::{LISTED_MAX, Members};
use weir_filter::request::wire::{Field, Names, Wire};
use weir_filter::shared_plan::SharedPlan;
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::verdict::Verdict;

use crate::input::Input;

/// Configuration with everything that reads a header.
const CONFIG: &str = r#"{"service":"demo","classes":[{"name":"gold","share":0.5,"claim":{"header":"x-tier","values":["gold"]}},{"name":"rest","share":0.5}],"default_class":"rest","deadline":{"trust_deadline":true},"plan":{"variants":[
    {"name":"a","cluster":"a","share":0.5,"slots":2,"service_ms":20,"accuracy":70,"model":"own"},
    {"name":"b","cluster":"b","share":0.5,"slots":1,"service_ms":60,"accuracy":80,"path":"/own"}]}}"#;
const NOW: Now = Now {
    mono: Mono(1_000_000_000_000),
    wall: Wall(1_790_000_000_000_000_000),
};
/// Longest time that a request may have.
const HOUR_MS: u64 = 3_600_000;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(11) {
        0 => configuration(input.rest()),
        1 => planned(input.rest()),
        2 => slot_table(input.rest()),
        3 => group_table(input.rest()),
        4 => shared_plan(input.rest()),
        5 => variant_list(input.rest()),
        6 | 7 => headers(&mut input),
        8 => paths(&mut input),
        9 => patterns(&mut input),
        _ => messages(&mut input),
    }
}

/// Checks the text of an error for the log, which makes one line of it.
fn explained(error: &impl Display) {
    assert!(!error.to_string().is_empty());
}

/// Checks a text that goes into a header, or a line of a body.
fn printable(text: &str) {
    let is_printable = |byte: u8| (0x20..0x7f).contains(&byte);
    assert!(text.bytes().all(is_printable), "{text:?}");
}

fn configuration(bytes: &[u8]) {
    match Config::parse_services(bytes) {
        Ok(configs) => {
            assert!(!configs.is_empty());
            for config in configs {
                drop(Engine::new(config, Box::new(Memory::default()), 1));
            }
        }
        Err(error) => explained(&error),
    }
}

fn planned(bytes: &[u8]) {
    match plan::read(bytes, "demo", Revision(0)) {
        Ok(plan) => {
            let config = Config::parse(CONFIG.as_bytes()).expect("a valid configuration");
            let mut engine = Engine::new(config, Box::new(Memory::default()), 1);
            engine.on_plan(&plan, NOW.mono, NOW, &mut Vec::new());
            assert_eq!(engine.source().revision(), plan.revision);
        }
        Err(error) => explained(&error),
    }
}

fn slot_table(bytes: &[u8]) {
    let mut table = SlotTable::default();
    if table.read(bytes).is_err() {
        return;
    }
    for column in 0..table.columns.len() {
        let _ = (
            table.taken(column, NOW.mono),
            table.waiting(column, NOW.mono),
        );
    }
    let _ = (table.held(NOW.mono), table.workers(NOW.mono));
    let mut written = Vec::new();
    table.write(&mut written);
    let mut again = SlotTable::default();
    again.read(&written).expect("what it has written");
    let mut twice = Vec::new();
    again.write(&mut twice);
    assert_eq!(written, twice);
}

fn group_table(bytes: &[u8]) {
    let mut table = GroupTable::default();
    if table.read(bytes).is_err() {
        return;
    }
    let mut written = Vec::new();
    table.write(&mut written);
    let mut again = GroupTable::default();
    again.read(&written).expect("what it has written");
    table.expire(NOW.mono);
}

fn shared_plan(bytes: &[u8]) {
    let plan = SharedPlan::read(bytes).and_then(|shared| shared.plan);
    if let Some(bytes) = plan {
        planned(bytes);
    }
}

fn variant_list(bytes: &[u8]) {
    match Members::parse(bytes) {
        Ok(members) => assert!((1..=LISTED_MAX).contains(&members.iter().count())),
        Err(error) => printable(&error.text(["a", "b"].into_iter())),
    }
}

fn headers(input: &mut Input<'_>) {
    let config = Config::parse(CONFIG.as_bytes()).expect("a valid configuration");
    let names = config.claim_headers.clone();
    let budgets = config.budget_headers.clone();
    let mut engine = Engine::new(config, Box::new(Memory::default()), 1);
    let mut pairs = Vec::new();
    while let Some(field) = input.next() {
        let fields = Field::ALL.len() + 1;
        let name = Field::ALL.get(usize::from(field) % fields);
        pairs.push((name.map_or("x-tier", |field| field.name()), input.bytes()));
    }
    let names = Names {
        claims: &names,
        budgets: &budgets,
    };
    let incoming = IncomingRequest {
        source: Some(7),
        ..Wire::pick_with(pairs, names).into()
    };
    let _ = engine.required_lookups(&incoming.wire);
    let mut others = Vec::new();
    match engine.on_request(1, &incoming, NOW, &mut others) {
        Verdict::Forward(dispatch) => {
            assert!((1..=HOUR_MS).contains(&dispatch.remaining.as_millis().max(1)));
            assert!(dispatch.deadline <= Wall(NOW.wall.0 + HOUR_MS * 1_000_000));
            let tags = engine
                .on_answer(1, Answer::default(), NOW)
                .expect("it is open");
            let texts = [tags.variants, tags.ignored];
            texts.iter().flatten().for_each(|text| printable(text));
        }
        Verdict::Reject(refusal) => {
            let message = refusal.facts.message(refusal.reason);
            assert!(!message.contains(['"', '\\', '%']), "{message:?}");
            printable(&message);
            let body = refusal.facts.body(refusal.reason);
            printable(body.trim_end_matches('\n'));
            let texts = [refusal.variants, refusal.ignored];
            texts.iter().flatten().for_each(|text| printable(text));
        }
        Verdict::Pass | Verdict::PassTo(_) => assert_eq!(engine.open(), 0),
        Verdict::Park => assert_eq!(engine.open(), 1),
    }
    assert_eq!(others, []);
}

fn paths(input: &mut Input<'_>) {
    let path = input.bytes();
    let (grpc, query) = (input.flag(), path.iter().position(|byte| *byte == b'?'));
    let query = query.map_or(&[][..], |at| &path[at..]);
    let _ = (model::name_place(path, grpc), model::is_named(path));
    for changed in [
        model::rename(path, "own"),
        model::replace_path(path, "/own"),
    ] {
        let Some(changed) = changed else { continue };
        assert!(changed.contains("own"), "{changed}");
        assert!(changed.as_bytes().ends_with(query), "{changed}");
        assert!(changed.len() <= path.len() + "/own".len(), "{changed}");
    }
}

fn patterns(input: &mut Input<'_>) {
    let [one, other, path] = [input.bytes(), input.bytes(), input.rest()];
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    if let (Some(one), Some(other)) = (Pattern::new(&one), Pattern::new(&other))
        && one.covers(&other)
        && other.matches_as_sent(path)
    {
        assert!(one.matches_as_sent(path), "a path of the covered one alone");
    }
    let _ = (Host::new(&one), host_of(path));
}

/// Messages that come in any chunks: those of a stream are read chunk by chunk.
fn messages(input: &mut Input<'_>) {
    let mut renamer = Renamer::new(Rc::from("own-name"), input.flag());
    let mut waiting = Vec::new();
    while !renamer.is_done() {
        let (complete, chunk) = (input.flag(), input.bytes());
        if chunk.is_empty() && !complete {
            break;
        }
        waiting.extend_from_slice(chunk);
        let required = renamer.required(waiting.len());
        let bytes = &waiting[..required.min(waiting.len())];
        if bytes.is_empty() {
            waiting.clear();
            if complete {
                break;
            }
            continue;
        }
        let change = renamer.rename(bytes, complete);
        assert!(change.replaced <= bytes.len(), "more than it had");
        assert!(!(complete && change.waits), "for what never comes");
        if !change.waits {
            waiting.clear();
        }
        if complete {
            break;
        }
    }
}
