use super::*;

fn environment(runtime_dir: &str, session: &str, system: &str) -> Environment {
    let set = |value: &str| (!value.is_empty()).then(|| value.into());
    Environment {
        runtime_dir: set(runtime_dir),
        session_bus: set(session),
        system_bus: set(system),
    }
}

fn refusal(address: &str) -> String {
    let error = parse(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{address}");
    assert!(!error.to_string().contains('\n'));
    error.to_string()
}

#[test]
fn the_system_bus_is_where_the_variable_says_else_in_run() {
    let usual = environment("", "", "").system_bus().unwrap();
    assert_eq!(usual.to_string(), "unix:path=/run/dbus/system_bus_socket");
    let set = environment(
        "",
        "",
        "unix:path=/a/b,guid=00112233445566778899aabbccddeeff",
    );
    assert_eq!(
        set.system_bus().unwrap().to_string(),
        "unix:path=/a/b,guid=00112233445566778899aabbccddeeff"
    );
}

#[test]
fn the_runtime_directory_comes_before_the_session_bus() {
    let both = environment("/run/user/7", "unix:path=/tmp/session", "");
    assert_eq!(
        both.user_bus().unwrap().to_string(),
        "unix:path=/run/user/7/bus"
    );
    let session = environment("", "unix:abstract=/tmp/session", "");
    assert_eq!(
        session.user_bus().unwrap().to_string(),
        "unix:abstract=/tmp/session"
    );
}

#[test]
fn a_user_manager_cannot_be_found_without_a_runtime_directory() {
    let none = environment("", "", "");
    for error in [
        none.user_bus().unwrap_err(),
        none.user_private().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NoManager);
        assert!(error.to_string().contains("XDG_RUNTIME_DIR"), "{error}");
    }
}

#[test]
fn a_variable_that_cannot_be_used_is_named() {
    let error = environment("", "", "tcp:host=x").system_bus().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("DBUS_SYSTEM_BUS_ADDRESS"),
        "{error}"
    );
    let error = environment("run/user/7", "", "").user_bus().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("XDG_RUNTIME_DIR"), "{error}");
}

#[test]
fn the_private_sockets_are_not_buses() {
    assert_eq!(
        environment("", "", "").system_private(),
        Endpoint::Private("/run/systemd/private".into())
    );
    assert_eq!(
        environment("/run/user/7", "", "").user_private().unwrap(),
        Endpoint::Private("/run/user/7/systemd/private".into())
    );
    assert_eq!(
        parse("unix:path=/x/systemd/private").unwrap(),
        Endpoint::Private("/x/systemd/private".into())
    );
    assert!(
        !parse("unix:path=/x/notsystemd/private")
            .unwrap()
            .is_private()
    );
}

#[test]
fn an_address_is_printed_as_it_is_read() {
    for text in [
        "unix:path=/run/user/0/bus",
        "unix:path=/tmp/a%20b%2cc",
        "unix:abstract=name",
        "unix:path=/x/systemd/private",
        "unix:path=/x,guid=00112233445566778899aabbccddeeff",
    ] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
    assert_eq!(
        parse("unix:path=/tmp/a%20b").unwrap().socket(),
        SocketName::Path("/tmp/a b".into())
    );
}

#[test]
fn the_first_address_of_a_list_that_can_be_used_is_taken() {
    let endpoint = parse("tcp:host=localhost,port=1;unix:path=/a;unix:path=/b").unwrap();
    assert_eq!(endpoint.to_string(), "unix:path=/a");
}

#[test]
fn every_other_address_is_refused_with_a_sentence_that_says_why() {
    for (address, why) in [
        ("", "empty"),
        (";", "empty"),
        ("/run/dbus/system_bus_socket", "no transport"),
        ("tcp:host=localhost,port=1", "only the transport unix:"),
        ("unixexec:path=/bin/sh", "only the transport unix:"),
        ("autolaunch:", "only the transport unix:"),
        ("unix:", "names no socket"),
        (
            "unix:guid=00112233445566778899aabbccddeeff",
            "names no socket",
        ),
        ("unix:path", "no value"),
        ("unix:path=", "must be absolute"),
        ("unix:path=run/bus", "must be absolute"),
        ("unix:path=/a,path=/b", "more than one"),
        ("unix:path=/a,abstract=b", "more than one"),
        ("unix:abstract=", "empty"),
        ("unix:path=/a%2", "hexadecimal"),
        ("unix:path=/a%zz", "hexadecimal"),
        ("unix:path=/a%00b", "NUL"),
        ("unix:path=/a,guid=12", "guid"),
        ("unix:tmpdir=/tmp", "only the options"),
        ("unix:runtime=yes", "only the options"),
    ] {
        let text = refusal(address);
        assert!(text.contains(why), "{address}: {text}");
    }
    assert!(refusal(&format!("unix:path=/{}", "x".repeat(107))).contains("107"));
    assert!(refusal(&format!("unix:abstract={}", "x".repeat(108))).contains("107"));
    assert!(parse(&format!("unix:path=/{}", "x".repeat(106))).is_ok());
}

proptest::proptest! {
    #[test]
    fn no_address_panics_and_each_that_is_taken_is_printed_back(text in "(unix:|tcp:|)[ -~;,=%/a-f0-9]{0,40}") {
        if let Ok(endpoint) = parse(&text) {
            assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
        }
    }

    #[test]
    fn every_path_survives_being_printed(name in "[^\0/]{1,30}") {
        let endpoint = bus_at(Path::new("/tmp").join(name));
        if endpoint.socket() != SocketName::Path("/tmp/systemd/private".into()) {
            assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
        }
    }
}
