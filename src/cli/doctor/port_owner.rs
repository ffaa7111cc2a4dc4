//! Finds the process that listens on a port, from `/proc` where available.

use std::fs;
use std::path::Path;

/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Name and process id of the listener on `port`.
pub(super) fn of(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let text: String = tables.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let sockets = sockets(&text, port);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
        has_one_of(&entry.path(), &sockets).then_some((number, entry.path()))
    });
    let (number, folder) = processes.next()?;
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    Some(format!("{} (process {number})", name.trim()))
}

/// Inodes of the sockets that listen on `port`, as `/proc/PID/fd` shows them.
fn sockets(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, local, _, state, ..] = fields[..] else { return None };
            let inode = fields.get(9)?;
            (state == LISTENING && local.ends_with(&wanted)).then(|| format!("socket:[{inode}]"))
        })
        .collect()
}

fn has_one_of(process: &Path, sockets: &[String]) -> bool {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_parsed_from_proc() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1CFC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:1CFC 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: 0100007F:1CFD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1
";
        assert_eq!(sockets(table, 7_420), ["socket:[4711]"]);
        assert_eq!(sockets(table, 80), [""; 0]);
    }
}
