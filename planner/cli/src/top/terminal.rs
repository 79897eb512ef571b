//! A terminal that is drawn anew at each refresh: its other screen, with keys read as they are pressed, until it is left.

use std::io::{IsTerminal, Read, Stdout, Write, stdin, stdout};
use std::thread::JoinHandle;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::watch;

/// Control sequences of a terminal (ECMA-48, and xterm's other screen).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// Size of a terminal that does not know its own.
const COLUMNS: usize = 80;
const ROWS: usize = 24;
/// Tenths of a second after which a read without a key returns.
const KEY_WAIT: u8 = 1;
/// Keys that quit: q, Q and Escape. Ctrl-C is a signal.
const QUIT: [u8; 3] = [b'q', b'Q', 0x1b];

/// The terminal of the process; it is restored when dropped.
pub(super) struct Terminal {
    out: Stdout,
    quit: watch::Receiver<bool>,
    /// Held while keys are read, which end with it.
    left: Option<watch::Sender<()>>,
    keys: Option<(JoinHandle<()>, Termios)>,
}

impl Terminal {
    /// # Errors
    /// A terminal that cannot be set up.
    pub(super) fn enter() -> std::io::Result<Terminal> {
        let (left, ended) = watch::channel(());
        let (quits, quit) = watch::channel(false);
        let keys = match stdin().is_terminal() {
            true => {
                let before = tcgetattr(stdin())?;
                let mut keys = before.clone();
                keys.local_modes
                    .remove(LocalModes::ICANON | LocalModes::ECHO);
                keys.special_codes[SpecialCodeIndex::VMIN] = 0;
                keys.special_codes[SpecialCodeIndex::VTIME] = KEY_WAIT;
                tcsetattr(stdin(), OptionalActions::Now, &keys)?;
                let reader = std::thread::spawn(move || read_keys(&quits, &ended));
                Some((reader, before))
            }
            false => None,
        };
        let mut terminal = Terminal {
            out: stdout(),
            quit,
            left: Some(left),
            keys,
        };
        terminal.write(ENTER)?;
        Ok(terminal)
    }

    /// Waits until the user quits; forever without a terminal, or without keys.
    pub(super) async fn quit(terminal: Option<&mut Terminal>) {
        if let Some(terminal) = terminal
            && terminal.quit.wait_for(|quit| *quit).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Draws the text, as far as it fits.
    ///
    /// # Errors
    /// A terminal that cannot be written.
    pub(super) fn draw(&mut self, text: &str) -> std::io::Result<()> {
        let size = tcgetwinsize(&self.out)?;
        let (columns, rows) = (or(size.ws_col, COLUMNS), or(size.ws_row, ROWS));
        let mut drawn = HOME.to_owned();
        for line in visible(text, columns, rows) {
            drawn += &format!("{CLEAR_LINE}{line}\r\n");
        }
        drawn += CLEAR_BELOW;
        self.write(&drawn)
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.left = None;
        // An error while leaving cannot be reported any more.
        let _ = self.write(LEAVE);
        if let Some((reader, before)) = self.keys.take() {
            let _ = reader.join();
            let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        }
    }
}

/// Reads keys until one quits, or the terminal is left.
fn read_keys(quits: &watch::Sender<bool>, ended: &watch::Receiver<()>) {
    let mut key = [0];
    while ended.has_changed().is_ok() {
        match stdin().read(&mut key) {
            Ok(0) => {}
            Ok(_) if key.iter().all(|key| QUIT.contains(key)) => {
                let _ = quits.send(true);
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Returns a size, or the usual one where the terminal does not know its own.
fn or(size: u16, usual: usize) -> usize {
    match size {
        0 => usual,
        size => size.into(),
    }
}

/// Returns the lines that fit, the last row left free, each cut at the width.
fn visible(text: &str, columns: usize, rows: usize) -> impl Iterator<Item = String> {
    let lines = text.lines().take(rows.saturating_sub(1));
    lines.map(move |line| line.chars().take(columns).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_the_screen() {
        let lines: Vec<String> = visible("│ab\ncd\nef\n", 2, 3).collect();
        assert_eq!(lines, ["│a", "cd"]);
        assert_eq!(visible("a", 2, 0).count(), 0);
        assert_eq!((or(0, COLUMNS), or(120, COLUMNS)), (80, 120));
    }
}
