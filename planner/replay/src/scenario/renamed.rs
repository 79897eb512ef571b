//! Keys and values of a scenario that have been renamed: an old one is refused with the new one named. The service
//! and the plugin configuration in it are refused by their own readers.

/// Old path and new path; `*` stands for any variant.
const RENAMED: [(&str, &str); 3] = [
    ("servers.*.law", "servers.*.latency"),
    ("proxies.ring_delay_ms", "proxies.notify_delay_ms"),
    ("clients.patience_ms", "clients.timeout_ms"),
];

/// Old and new name of a control.
const CONTROLS: [(&str, &str); 2] = [("hpa-like", "hpa"), ("vpa-like", "vpa")];

/// Message that names the new key or value, if the parser refuses an old one at `path`.
pub(super) fn new_name(path: &str, message: &str) -> Option<String> {
    if path.starts_with("contenders[") && path.ends_with("].control") {
        let old = |(old, _): &&(&str, &str)| message.contains(&format!("unknown variant `{old}`"));
        let (old, new) = CONTROLS.iter().find(old)?;
        return Some(format!("{old} is no longer a control; it is {new}"));
    }
    if !message.contains("unknown field") {
        return None;
    }
    RENAMED.iter().find_map(|(old, new)| {
        let any = matched(old, path)?;
        Some(format!("no longer a key; it is {}", new.replace('*', any)))
    })
}

/// The part of a path that stands for `*`, if the path is of that form.
fn matched<'a>(form: &str, path: &'a str) -> Option<&'a str> {
    let (before, after) = form.split_once('*').unwrap_or((form, ""));
    let any = path.strip_prefix(before)?.strip_suffix(after)?;
    (form.contains('*') != any.is_empty()).then_some(any)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::first_error;

    #[test]
    fn each_old_control_is_refused_with_the_new_one_named() {
        for (old, new) in CONTROLS {
            let text = format!(
                "name: a\nload: {{rates: [1]}}\nservice: {{}}\ncontenders: [{{plane: weir, control: {old}}}]\n"
            );
            let (path, message) = first_error(&text, Path::new("")).unwrap();
            let expected = format!("{old} is no longer a control; it is {new}");
            assert_eq!(
                (path.as_str(), message),
                ("contenders[0].control", expected)
            );
        }
    }

    #[test]
    fn each_old_key_is_refused_with_the_new_one_named() {
        for (old, new) in RENAMED {
            let (old, new) = (old.replace('*', "a"), new.replace('*', "a"));
            let mut value = "1".to_owned();
            for key in old.rsplit('.') {
                value = format!("{{{key}: {value}}}");
            }
            let key = value.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
            let text = format!("name: a\nload: {{rates: [1]}}\nservice: {{}}\n{key}\n");
            let (path, message) = first_error(&text, Path::new("")).unwrap();
            let expected = format!("no longer a key; it is {new}");
            assert_eq!((path, message), (old, expected));
        }
    }
}
