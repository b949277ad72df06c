use super::*;

#[test]
fn keys_and_variables_are_unique() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        let first = |is_same: &dyn Fn(&Setting) -> bool| SETTINGS.iter().position(is_same);
        assert_eq!(first(&|other| other.key == setting.key), Some(index), "{}", setting.key);
        assert_eq!(first(&|other| other.variable() == setting.variable()), Some(index), "{}", setting.key);
    }
}

#[test]
fn an_invalid_value_is_rejected_and_changes_nothing() {
    let invalid = [
        Value::Other,
        Value::Number(-1.0),
        Value::Number(f64::NAN),
        Value::Number(1e12),
        Value::Untyped("a b".into()),
        Value::Text(String::new()),
    ];
    for setting in SETTINGS.iter().filter(|setting| !matches!(setting.kind, Kind::Path(_))) {
        for value in &invalid {
            let mut values = Values::default();
            assert!(setting.set(&mut values, value, None).is_err(), "{} takes {value:?}", setting.key);
            assert_eq!(setting.display_value(&values), setting.display_value(&Values::default()), "{}", setting.key);
        }
    }
}
