//! `weir top` on a pseudo-terminal: what is on its screen, and that it is left as it was.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::bed::*;
use super::inspect::{command, published};

/// A terminal, with what programs have written to it.
struct Terminal {
    keyboard: File,
    /// The side of the programs; the terminal ends with its last copy.
    device: OwnedFd,
    shown: Arc<Mutex<vt100::Parser>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    fn new(rows: u16, columns: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let device = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&device, size).unwrap();
        let keyboard = File::from(controller);
        let [high, wide] = [rows, columns].map(|count| NonZero::new(count).unwrap());
        let shown = Arc::new(Mutex::new(vt100::Parser::new(high, wide, 0)));
        let (mut output, screen) = (keyboard.try_clone().unwrap(), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The last copy of the device is closed: an error, or the end.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                screen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Terminal {
            keyboard,
            device,
            shown,
            reader,
        }
    }

    fn start(&self, planner: &str) -> Child {
        let mut top: Command = command(&["top"], planner);
        top.stdin(Stdio::from(self.device.try_clone().unwrap()));
        top.stdout(Stdio::from(self.device.try_clone().unwrap()));
        top.stderr(Stdio::piped()).spawn().unwrap()
    }

    fn text(&self) -> String {
        self.shown.lock().unwrap().screen().contents()
    }

    /// Waits until that text is on the screen.
    async fn until_shown(&self, text: &str) {
        until(text, async || self.text().contains(text).then_some(())).await;
    }

    fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).unwrap();
    }

    /// Whether keys are read as they are pressed, and not shown.
    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.device).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Whether the program's own screen is shown, and the cursor is not.
    fn is_taken(&self) -> bool {
        let shown = self.shown.lock().unwrap();
        let screen = shown.screen();
        assert_eq!(screen.alternate_screen(), screen.hide_cursor());
        screen.alternate_screen()
    }

    /// Waits until the program has ended well, and the terminal is as before it.
    async fn until_left(self, top: Child) {
        let ended = timeout(PATIENCE, top.wait_with_output()).await.unwrap();
        let ended = ended.unwrap();
        let log = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), log.as_str()), (Some(0), ""));
        assert!(!self.is_raw());
        // Without a copy of the device, all that was written is read.
        drop(self.device);
        self.reader.join().unwrap();
        let shown = self.shown.lock().unwrap();
        let screen = shown.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(screen.contents(), "", "nothing is left on the first screen");
    }
}

#[tokio::test]
async fn screen_is_drawn_until_a_key_quits() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (planner_process, planner) = folder.start().await;
    published(&planner).await;
    let mut terminal = Terminal::new(40, 120);
    assert!(!terminal.is_raw());
    let top = terminal.start(&planner);
    terminal.until_shown("service demo: mode active").await;
    terminal.until_shown("no proxy polls").await;
    assert!(terminal.is_taken() && terminal.is_raw());
    // Other keys change nothing.
    terminal.press(b'x');
    terminal.press(b'q');
    terminal.until_left(top).await;
    end(planner_process, "-TERM").await;
}

#[tokio::test]
async fn small_screen_has_what_fits() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (planner_process, planner) = folder.start().await;
    published(&planner).await;
    for (rows, columns, shown) in [(10, 40, "service demo: mode active"), (2, 9, "service d")] {
        let mut terminal = Terminal::new(rows, columns);
        let top = terminal.start(&planner);
        terminal.until_shown(shown).await;
        let text = terminal.text();
        assert!(text.starts_with(shown), "{text}");
        terminal.press(0x1b);
        terminal.until_left(top).await;
    }
    end(planner_process, "-TERM").await;
}

#[tokio::test]
async fn planner_that_goes_away_is_a_message_on_the_screen() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (planner_process, planner) = folder.start().await;
    published(&planner).await;
    let mut terminal = Terminal::new(24, 80);
    let top = terminal.start(&planner);
    terminal.until_shown("service demo: mode active").await;
    end(planner_process, "-TERM").await;
    let message = format!("{planner}, service demo: no answer");
    terminal.until_shown(&message).await;
    assert!(
        !terminal.text().contains("mode active"),
        "nothing of before"
    );
    terminal.press(b'Q');
    terminal.until_left(top).await;
}
