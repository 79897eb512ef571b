//! Quotas in folders that have the files of both versions, and failures.

use std::fs;

use super::*;
use crate::backends::Blocker;

const TWO: (&str, &[(&str, &str)]) = ("small", &[("cpu.max", "max 100000\n")]);
const ONE: (&str, &[(&str, &str)]) = (
    "cpu/small",
    &[
        ("cpu.cfs_period_us", "20000\n"),
        ("cpu.cfs_quota_us", "-1\n"),
    ],
);

/// A root with these groups and their files.
fn root(groups: &[(&str, &[(&str, &str)])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (group, files) in groups {
        let folder = root.path().join(group);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in *files {
            fs::write(folder.join(file), text).unwrap();
        }
    }
    root
}

fn server(root: &tempfile::TempDir, max: u32) -> CgroupServer {
    CgroupServer {
        root: root.path().to_owned(),
        name: "small".to_owned(),
        max: Cores::whole(max),
    }
}

fn text(root: &tempfile::TempDir, file: &str) -> String {
    fs::read_to_string(root.path().join(file)).unwrap()
}

#[test]
fn quota_is_set_and_read_back_in_both_versions() {
    let groups = root(&[TWO]);
    let cores = Cores::from_millis(1500);
    assert_eq!(server(&groups, 4).apply(Some(cores)), Ok(cores));
    assert_eq!(text(&groups, "small/cpu.max"), "150000 100000");

    let groups = root(&[ONE]);
    assert_eq!(server(&groups, 4).apply(Some(cores)), Ok(cores));
    assert_eq!(text(&groups, "cpu/small/cpu.cfs_quota_us"), "150000");
    assert_eq!(text(&groups, "cpu/small/cpu.cfs_period_us"), "100000");
    assert_eq!(server(&groups, 4).apply(None), Ok(cores));
}

#[test]
fn version_with_the_controller_is_found() {
    // A hybrid host: version 2 has the group without a CPU controller, version 1 has it with one.
    let groups = root(&[("small", &[("cgroup.procs", "")]), ONE]);
    assert_eq!(
        Cgroup::find(groups.path(), "small").unwrap().version,
        Version::One
    );
    let groups = root(&[(
        "cpu,cpuacct/small",
        &[
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "50000"),
        ],
    )]);
    assert_eq!(server(&groups, 4).apply(None), Ok(Cores::from_millis(500)));
}

#[test]
fn any_quota_is_read_as_cores() {
    for (quota, cores) in [
        ("50000 100000", Ok(Some(500))),
        ("200000 100000", Ok(Some(2000))),
        ("10000 20000", Ok(Some(500))),
        ("max 100000", Ok(None)),
        ("300000", Ok(Some(3000))),
        ("a 100000", Err("'a 100000'; it must be a quota")),
        ("1000 0", Err("'1000 0'; it must be")),
        ("", Err("' 100000'")),
    ] {
        let groups = root(&[("small", &[("cpu.max", quota)])]);
        let group = Cgroup::find(groups.path(), "small").unwrap();
        match (group.cores(), cores) {
            (Ok(found), Ok(cores)) => {
                assert_eq!(found.map(Cores::millis), cores, "{quota}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{quota}: {error}");
            }
            (found, cores) => panic!("{quota}: {found:?}, not {cores:?}"),
        }
    }
}

#[test]
fn unlimited_server_has_the_machines_cores_as_far_as_it_can_use_them() {
    let groups = root(&[TWO]);
    let one = server(&groups, 1).apply(None).unwrap();
    assert_eq!(one, Cores::whole(1));
    let all = server(&groups, 1 << 20).apply(None).unwrap();
    assert!(
        all >= Cores::whole(1) && all.is_multiple(Cores::whole(1)),
        "{all}"
    );
}

#[track_caller]
fn refused(result: Result<Cores, ActuateError>, reason: Reason, parts: &[&str]) {
    let error = result.unwrap_err();
    let Blocker { reason: found, why } = Blocker::of(&error);
    assert_eq!(found, reason, "{why}");
    for part in parts {
        assert!(why.contains(part), "'{why}' lacks '{part}'");
    }
    assert!(!error.may_have_applied());
}

#[test]
fn failure_names_what_is_missing_and_changes_nothing() {
    let cores = Some(Cores::whole(1));
    let groups = root(&[]);
    refused(
        server(&groups, 1).apply(cores),
        Reason::NoWorkload,
        &[
            "cgroup: small; it must be a control group of this host",
            "on its host?",
        ],
    );
    let groups = root(&[("small", &[])]);
    refused(
        server(&groups, 1).apply(cores),
        Reason::NotResizable,
        &["/small; it must be a control group with a CPU controller"],
    );
    let groups = root(&[TWO]);
    refused(
        server(&groups, 1).apply(Some(Cores::from_millis(9))),
        Reason::Refused,
        &["cores: 0.009; it must be 0.01 or more"],
    );
    assert_eq!(text(&groups, "small/cpu.max"), "max 100000\n");
    // The group has ended since it was found.
    let group = Cgroup::find(groups.path(), "small").unwrap();
    fs::remove_dir_all(groups.path().join("small")).unwrap();
    let error = ActuateError::from(group.set(1.0).unwrap_err());
    assert_eq!(error.reason(), Reason::NoWorkload, "{error}");
}

#[test]
fn missing_right_is_named() {
    for (kind, reason, part) in [
        (ErrorKind::PermissionDenied, Reason::Forbidden, "root's"),
        (
            ErrorKind::ReadOnlyFilesystem,
            Reason::Forbidden,
            "mounted for writing",
        ),
        (ErrorKind::InvalidInput, Reason::Refused, "a parent group"),
    ] {
        let error = failed(Path::new("small/cpu.max"), &kind.into());
        refused(Err(error.into()), reason, &["small/cpu.max: ", part]);
    }
}
