//! Roads out, by the programs that an agent would ask.

use super::{Script, kernels, ours};

pub(super) const TABLE: &[Script] = &[
    ours(
        "bash-tcp",
        &["bypass 13", "sandbox exfiltration: a server on this host"],
        "send to a server of this host with bash alone",
        "bash",
        r#"(exec 3<>"/dev/tcp/127.0.0.1/$ESCAPE_TCP" && echo secret >&3) 2>/dev/null && escaped sent; refused "/dev/tcp""#,
    ),
    ours(
        "python-tcp",
        &["bypass 13", "sandbox exfiltration: a server on this host"],
        "send to a server of this host with Python",
        "python3",
        "import socket\ntry:\n    s = socket.create_connection(('127.0.0.1', int(ground('TCP'))), 1); s.sendall(b'secret'); escaped('sent')\nexcept OSError as e: refused(e)",
    ),
    ours(
        "python-tcp-six",
        &["bypass 13"],
        "send to a server of this host in a mapped form",
        "python3",
        "import socket\ntry:\n    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM); s.settimeout(1); s.connect(('::ffff:127.0.0.1', int(ground('TCP')))); escaped('sent')\nexcept OSError as e: refused(e)",
    ),
    ours(
        "perl-tcp",
        &["bypass 13"],
        "send to a server of this host with Perl",
        "perl",
        r#"use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or refused("$!");
connect($s, sockaddr_in($ENV{ESCAPE_TCP}, INADDR_LOOPBACK)) ? escaped('sent') : refused("$!");"#,
    ),
    ours(
        "python-udp",
        &["bypass 13", "bypass 15", "sandbox exfiltration: datagrams"],
        "exchange datagrams with a server of this host",
        "python3",
        "import socket\ntry:\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5); s.sendto(b'secret', ('127.0.0.1', int(ground('UDP')))); s.recv(16); escaped('answered')\nexcept OSError as e: refused(e)",
    ),
    ours(
        "python-unix",
        &["ES-009", "DK-002", "bypass 9"],
        "connect to a Unix socket of the host",
        "python3",
        "import socket\ntry:\n    s = socket.socket(socket.AF_UNIX); s.connect(ground('UNIX')); escaped('connected')\nexcept OSError as e: refused(e.strerror)",
    ),
    ours(
        "python-abstract",
        &["ES-023", "bypass 9", "bypass 10"],
        "connect to an abstract socket of the host",
        "python3",
        "import socket\ntry:\n    s = socket.socket(socket.AF_UNIX); s.connect('\\0' + ground('ABSTRACT')); escaped('connected')\nexcept OSError as e: refused(e.strerror)",
    ),
    ours(
        "take-abstract-name",
        &["bypass 10"],
        "find an abstract name of the host taken",
        "python3",
        "import socket\ntry:\n    s = socket.socket(socket.AF_UNIX); s.bind('\\0' + ground('ABSTRACT')); refused('the name is free: another space of names')\n\
         except OSError as e:\n    escaped('the same name space') if e.errno == errno.EADDRINUSE else refused(e.strerror)",
    ),
    ours(
        "take-port",
        &["bypass 10"],
        "find a port of the host taken",
        "python3",
        "import socket\ntry:\n    s = socket.socket(); s.bind(('127.0.0.1', int(ground('TCP')))); refused('the port is free: another network')\n\
         except OSError as e:\n    escaped('the same network') if e.errno == errno.EADDRINUSE else refused(e.strerror)",
    ),
    kernels(
        "control-ports",
        &["bypass 26", "scenario orchestration: node agent"],
        "find a server on this host by scanning its ports",
        "python3",
        "import socket\nfor port in [22, 80, 443, 2375, 2379, 4317, 5432, 6443, 8080, 9090, 10250, 11434]:\n    try:\n        s = socket.socket(); s.settimeout(0.1); s.connect(('127.0.0.1', port)); escaped(port)\n    except OSError: pass\nrefused('none answers')",
    ),
    kernels(
        "resolve",
        &["bypass 15", "sandbox exfiltration: names"],
        "resolve a name",
        "python3",
        "import socket\nsocket.setdefaulttimeout(2)\ntry:\n    socket.getaddrinfo('secret.example.com', 443); escaped('resolved')\nexcept OSError as e: refused(e)",
    ),
    kernels(
        "routes",
        &["bypass 13"],
        "find a route out of its network",
        "sh",
        r#"test -r /proc/net/route || refused "no /proc/net"
awk 'NR > 1 && $2 == "00000000" { found = 1 } END { exit !found }' /proc/net/route && escaped "a default route"; refused "no route""#,
    ),
    kernels(
        "interfaces",
        &["scenario kernel: packet socket"],
        "find an interface beside the loopback",
        "sh",
        r#"test -r /proc/net/dev || refused "no /proc/net"
awk 'NR > 2 && $1 !~ /^(lo|sit0|tunl0|gre0|gretap0|erspan0|ip_vti0|ip6_vti0|ip6tnl0|ip6gre0):/ { print $1; found = 1 } END { exit !found }' /proc/net/dev && escaped interface; refused "the loopback alone""#,
    ),
    kernels(
        "make-interface",
        &["scenario runtime: privileged"],
        "make a network interface",
        "sh",
        r#"need ip; ip link add escape0 type dummy 2>/dev/null && { ip link del escape0; escaped made; }; refused ip"#,
    ),
    kernels(
        "service-environment",
        &["scenario orchestration: cluster API"],
        "find a cluster's API server in the environment",
        "sh",
        r#"test -n "$KUBERNETES_SERVICE_HOST" && escaped "$KUBERNETES_SERVICE_HOST"; refused "not named""#,
    ),
];
