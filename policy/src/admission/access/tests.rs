//! Access rules by example, and the batched decisions against the plain one on random rules.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn profile(squad: &str, tier: &str, c_suite: bool) -> Profile {
    Profile { squad: Some(squad.into()), tier: Some(tier.into()), c_suite, ..Profile::default() }
}

fn rule(name: &str, allow: bool, from: &[&str], to: &[&str]) -> Rule {
    let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let (from, to) = (read(from), read(to));
    Rule { name: name.into(), allow, from, to, kinds: Vec::new(), scopes: Vec::new() }
}

/// The decision for a message from `tony`, a worker of the web squad, to `tim` of core.
fn query(rules: &AccessRules, kind: Kind, scope: Option<Scope>) -> Explanation {
    let (tony, tim) = (id("tony"), id("tim"));
    let (web, core) = (profile("web", "T4-Mid", false), profile("core", "T1", false));
    let query = AccessQuery { from: (&tony, &web), to: (&tim, &core), kind, scope };
    let explained = rules.explain(&query);
    let Decision { allowed, rule } = rules.decide(&query);
    assert_eq!((explained.allowed, explained.rule.as_str()), (allowed, rule));
    assert!(explained.sentence.contains(&format!("`{rule}`")), "{explained:?}");
    explained
}

#[test]
fn the_first_match_wins() {
    let rules = |rules: Vec<Rule>| AccessRules::new(rules).unwrap();
    let allow = || rule("let-them", true, &["tony"], &["tim"]);
    let deny = || rule("", false, &["squad:web"], &["squad:core"]);
    let says = |rules: &AccessRules| query(rules, Kind::TaskRequest, None).rule;
    assert_eq!(says(&rules(vec![allow(), deny()])), "let-them");
    assert_eq!(says(&rules(vec![deny(), allow()])), "rule-1");
    assert_eq!(says(&rules(vec![rule("", false, &["tim"], &[]), deny()])), "rule-2");
    assert_eq!(says(&rules(vec![rule("", false, &[], &["same-squad"])])), "default");
    assert_eq!(says(&AccessRules::default()), "default");
}

#[test]
fn kinds_and_scopes_narrow_a_rule_and_scopes_are_of_broadcasts_only() {
    let of_kind = Rule { kinds: vec![Kind::TaskRequest], ..rule("tasks", false, &[], &[]) };
    let of_scope = Rule { scopes: vec![Scope::Org], ..rule("org", false, &[], &[]) };
    let rules = AccessRules::new(vec![of_kind, of_scope]).unwrap();
    for (kind, scope, expected) in [
        (Kind::TaskRequest, None, "tasks"),
        (Kind::TaskResponse, None, "default"),
        (Kind::Broadcast, Some(Scope::Org), "org"),
        (Kind::Broadcast, Some(Scope::Squad), "default"),
        (Kind::KnowledgeShare, Some(Scope::Org), "default"),
    ] {
        assert_eq!(query(&rules, kind, scope).rule, expected, "{kind} {scope:?}");
    }
}

#[test]
fn c_suite_broadcast_is_for_members_unless_a_rule_allows_it() {
    let refused = query(&AccessRules::default(), Kind::Broadcast, Some(Scope::CSuite));
    assert_eq!((refused.allowed, refused.rule.as_str()), (false, "c-suite-scope"));
    let (ceo, tim) = (id("ceo"), id("tim"));
    let member = profile("board", "T0", true);
    let to = (&tim, &profile("core", "T1", true));
    let scope = Some(Scope::CSuite);
    let rules = AccessRules::default();
    let asks = AccessQuery { from: (&ceo, &member), to, kind: Kind::Broadcast, scope };
    assert!(rules.decide(&asks).allowed);
    let open = Rule { scopes: vec![Scope::CSuite], ..rule("alarm", true, &["tony"], &[]) };
    let open = AccessRules::new(vec![open]).unwrap();
    assert_eq!(query(&open, Kind::Broadcast, scope).rule, "alarm");
}

#[test]
fn explanation_contains_rule_reason_and_advice() {
    let refused = query(&AccessRules::default(), Kind::Broadcast, Some(Scope::CSuite));
    assert_eq!(
        refused.sentence,
        "`tony` may not send a `broadcast` with scope `c-suite` to `tim`: the access rule `c-suite-scope` refuses it, because `tony` is outside the c-suite, the kind is `broadcast` and the scope is `c-suite`. Use the scope `squad` or `org`, or write to a member of the c-suite directly."
    );
    let rules = vec![rule("own-squad-first", false, &["squad:core", "tier:T4"], &["tim", "*"])];
    let refused = query(&AccessRules::new(rules).unwrap(), Kind::TaskRequest, None);
    assert_eq!(
        refused.sentence,
        "`tony` may not send a `task_request` to `tim`: the access rule `own-squad-first` refuses it, because `tony` is of tier `T4` and `tim` is named in it. Sending it again does not help. Ask an agent who may, or ask the operator for an `[[access]]` rule that allows it, before `own-squad-first`."
    );
    let allowed = query(&AccessRules::default(), Kind::TaskRequest, None);
    assert_eq!(
        allowed.sentence,
        "`tony` may send a `task_request` to `tim`: the access rule `default` allows it, because no other rule is about it."
    );
    let written = serde_json::to_value(&allowed).unwrap();
    assert_eq!((&written["allowed"], &written["rule"]), (&true.into(), &"default".into()));
}

#[test]
fn invalid_rules_are_refused() {
    let refused = |rules| AccessRules::new(rules).unwrap_err();
    let named = |name: &str| rule(name, true, &[], &[]);
    let same = |name: &str| BadRule::SameName { name: name.into() };
    assert_eq!(refused(vec![named("a"), named("b"), named("a")]), same("a"));
    assert_eq!(refused(vec![named("rule-2"), named("")]), same("rule-2"));
    let built_in = BadRule::BuiltInName { name: "default".into() };
    assert_eq!(refused(vec![named("default")]), built_in);
    assert_eq!(refused(vec![named("a"), named("a\nb")]), BadRule::Name { position: 2 });
    assert_eq!(refused(vec![named("x"); 1_001]), BadRule::TooMany { count: 1_001 });
    let sends = rule("a", true, &["same-squad"], &[]);
    assert_eq!(refused(vec![sends]), BadRule::SameSquadSends { rule: "a".into() });
    let (kinds, scopes) = (vec![Kind::TaskRequest], vec![Scope::Org]);
    let never = Rule { kinds, scopes, ..named("a") };
    assert_eq!(refused(vec![never]), BadRule::NeverMatches { rule: "a".into() });
    let full = AccessRules::new(vec![named(""); 1_000]).unwrap();
    let names: Vec<_> = full.rules().iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names[999..], ["rule-1000", "c-suite-scope", "default"]);
}

#[test]
fn fan_out_without_recipient_rules_is_decided_once() {
    let (tony, web) = (id("tony"), profile("web", "T4", false));
    let from = (&tony, &web);
    let rules = vec![
        rule("others", false, &["tim"], &["roman"]),
        rule("everyone", false, &["tony"], &["roman", "*"]),
    ];
    let rules = AccessRules::new(rules).unwrap();
    let once = rules.decide_for_all(from, Kind::Broadcast, Some(Scope::Org));
    assert_eq!(once, Some(Decision { allowed: false, rule: "everyone" }));
    let rules = AccessRules::new(vec![rule("", false, &[], &["same-squad"])]).unwrap();
    assert_eq!(rules.decide_for_all(from, Kind::Broadcast, Some(Scope::Org)), None);
}

fn any_agents() -> impl Strategy<Value = Vec<(AgentId, Profile)>> {
    let squad = select(vec![None, Some("core"), Some("web")]);
    let tier = select(vec![None, Some("T1"), Some("T4-Mid"), Some("T4")]);
    let role = select(vec![None, Some("VP")]);
    let profile = (squad, tier, role, any::<bool>()).prop_map(|(squad, tier, role, c_suite)| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let (role, squad, tier) = (text(role), text(squad), text(tier));
        Profile { role, squad, tier, c_suite, capabilities: Vec::new() }
    });
    let numbered = |profiles: Vec<Profile>| {
        (0..).zip(profiles).map(|(i, profile)| (id(&format!("a{i}")), profile)).collect()
    };
    prop::collection::vec(profile, 2..8).prop_map(numbered)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    const WORDS: [&str; 10] = [
        "*",
        "a0",
        "a1",
        "a2",
        "squad:core",
        "tier:T4",
        "tier:T4-Mid",
        "role:VP",
        "c-suite",
        "outside-c-suite",
    ];
    let selectors = |words: Vec<&'static str>| {
        let chosen = subsequence(words, 0..3);
        chosen.prop_map(|words| words.iter().map(|word| word.parse().unwrap()).collect::<Vec<_>>())
    };
    let from = selectors(WORDS.to_vec());
    let to = selectors(WORDS.into_iter().chain(["same-squad"]).collect());
    let kinds = subsequence(Kind::ALL.to_vec(), 0..3);
    let scopes = subsequence(Scope::ALL.to_vec(), 0..3);
    let parts = (any::<bool>(), from, to, kinds, scopes);
    parts.prop_map(|(allow, from, to, mut kinds, scopes)| {
        if !scopes.is_empty() && !kinds.is_empty() {
            kinds.push(Kind::Broadcast);
        }
        Rule { name: String::new(), allow, from, to, kinds, scopes }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn batched_decisions_equal_decisions_per_recipient(
        agents in any_agents(),
        rules in prop::collection::vec(any_rule(), 0..6),
        kind in select(Kind::ALL),
        scope in select(Scope::ALL),
    ) {
        let rules = AccessRules::new(rules).unwrap();
        let scope = (kind == Kind::Broadcast).then_some(scope);
        let from = (&agents[0].0, &agents[0].1);
        let once = rules.decide_for_all(from, kind, scope);
        let narrowed = rules.narrow(from, kind, scope);
        for (agent, profile) in &agents {
            let to = (agent, profile);
            let query = AccessQuery { from, to, kind, scope };
            let decision = rules.decide(&query);
            prop_assert!(once.is_none_or(|once| once == decision));
            prop_assert_eq!(narrowed.decide(to), decision);
            let explained = rules.explain(&query);
            prop_assert_eq!((explained.allowed, &*explained.rule), (decision.allowed, decision.rule));
        }
    }
}
