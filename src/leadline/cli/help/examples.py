"""An example or two of every verb, as they are typed. A test parses each: known verb, known flags, no missing name.

Text after `#` says what the example is for; a shell takes it as a comment, so that a line can be pasted whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "run": (
        "leadline run -- python train.py",
        "leadline run --job bert-7 -- torchrun --nproc-per-node 8 train.py",
        "leadline run --server http://head:8440 -- python train.py  # on each host: srun leadline run ...",
    ),
    "completion bash": ("leadline completion bash > /etc/bash_completion.d/leadline",),
    "completion zsh": ('leadline completion zsh > "${fpath[1]}/_leadline"',),
    "completion fish": ("leadline completion fish > ~/.config/fish/completions/leadline.fish",),
    "completion names": ("leadline completion names jobs  # what a script offers for a job",),
    "demo": ("leadline demo",),
    "up": (
        "leadline up",
        "leadline up --port 9440 --data-dir /srv/leadline",
        "leadline up --host 0.0.0.0 --token-file tokens  # for agents on other hosts; see `leadline token create`",
    ),
    "agent": (
        "leadline agent --server http://10.0.0.5:8440 --token-file agent.token",
        "leadline agent --once  # print one reading, send nothing",
    ),
    "diagnose": (
        "leadline diagnose  # every job",
        "leadline diagnose bert-1",
        "leadline diagnose NAME.leadline  # a recording, without a server",
        "leadline diagnose --check  # one line and an exit code, for Nagios",
    ),
    "doctor": (
        "leadline doctor",
        "leadline doctor --server http://10.0.0.5:8440",
        "leadline doctor --permissions  # what the agent can read on this machine",
        "leadline doctor --relabel > relabel.yml  # what Prometheus needs to send",
        "leadline doctor --size 64 --interval 15s  # the server that 64 hosts need",
    ),
    "status": ("leadline status", "leadline status --check  # prints nothing if all is well"),
    "top": ("leadline top", "leadline top --span 15m --every 5"),
    "sql": (
        'leadline sql "SELECT entity, count() AS events FROM event GROUP BY entity ORDER BY events DESC LIMIT 10"',
        "leadline sql - --output csv < query.sql",
    ),
    "compare": (
        "leadline compare host:h3  # with its peers",
        "leadline compare bert-7 bert-6",
        "leadline compare bert-7@-2h bert-7  # the run of two hours ago with the newest",
    ),
    "explain": ("leadline explain bert-1-slow-20261120T202216Z",),
    "mark": (
        "leadline mark bert-1-slow-20261120T202216Z right",
        'leadline mark bert-1-slow-20261120T202216Z wrong --reason "the disk was slow, not the CPU"',
    ),
    "record": (
        "leadline record incident.leadline --last 30m",
        "leadline record --redact incident.leadline shared.leadline  # names and addresses replaced",
    ),
    "replay": ("leadline replay incident.leadline", "leadline replay incident.leadline --speed max --port 9440"),
    "backup": ("leadline backup /backup/leadline",),
    "restore": ("leadline restore /backup/leadline --data-dir /srv/leadline",),
    "import trace": ("leadline import trace trace-rank*.json --job bert-7",),
    "backfill": ("leadline backfill --last 2h", "leadline backfill ledger sle --from 2026-11-20T14:00Z"),
    "show graph": (
        "leadline show graph bert-1",
        "leadline show graph --of gpu:GPU-5c1e  # what depends on this GPU",
        "leadline show graph bert-1 --at -15m --svg graph.svg",
    ),
    "show path": ("leadline show path bert-1/0 bert-1/1",),
    "show flows": ("leadline show flows bert-1",),
    "show mesh": (
        "leadline show mesh",
        "leadline show mesh rack3 --measure lost --threshold 0.5%  # only hosts of this rack",
        "leadline show mesh --job bert-1 --watch  # live, until Ctrl-C",
        "leadline show mesh --by pod --output csv > pairs.csv",
    ),
    "show clock": (
        "leadline show clock",
        "leadline show clock --watch --every 0.5  # live, until Ctrl-C",
        "leadline show clock n12 --at -15m --output json",
    ),
    "show ledger": ("leadline show ledger bert-1", "leadline show ledger bert-1 --from -2h --svg ledger.svg"),
    "show incidents": ("leadline show incidents --state open", "leadline show incidents bert-1 --from -24h"),
    "show symptoms": ("leadline show symptoms bert-1",),
    "show failures": ("leadline show failures --from -168h",),
    "show anomalies": ("leadline show anomalies --from -1h", "leadline show anomalies gpu:GPU-5c1e"),
    "show sle": ("leadline show sle", "leadline show sle --layer gpu --window 24h", "leadline show sle --check"),
    "show expectations": ("leadline show expectations --layer nic",),
    "show rules": ("leadline show rules --all",),
    "show messages": ("leadline show messages bert-1",),
    "show whatif": ("leadline show whatif bert-7",),
    "show tables": ("leadline show tables", "leadline show tables step  # its columns"),
    "show series": ("leadline show series DCGM", "leadline show series --entity gpu:GPU-5c1e"),
    "show analyses": ("leadline show analyses",),
    "token create": (
        "leadline token create agent-h3 --role write --save agent.token",
        "leadline token create anna --role read --expires 30d",
    ),
    "token list": ("leadline token list",),
    "token revoke": ("leadline token revoke anna",),
    "config show": ("leadline config show", "leadline config show --config /etc/leadline/leadline.yaml"),
    "lab list": ("leadline lab list",),
    "lab run": ("leadline lab run slow-link", "leadline lab run oom-kill --record oom.leadline --seed 7"),
    "lab demo": ("leadline lab demo --scenario slow-worker",),
    "lab matrix": ("leadline lab matrix /tmp/runs --quick",),
    "lab simulate": (
        "leadline lab simulate --gpus 1000 --to fleet.leadline",
        "leadline lab simulate --gpus 1000 --faults dead-nic,slow-link --server http://127.0.0.1:8440",
    ),
    "lab up": ("leadline lab up", "leadline lab up clos8 --name two"),
    "lab down": ("leadline lab down",),
    "lab status": ("leadline lab status", "leadline lab status h3"),
}
"""By verb, in the order of `--help`."""
