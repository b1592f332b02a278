"""The configuration file of `rubrank serve`, and the plan that `serve` prints before it starts.

    service.yaml
      rubric: rubric.yaml          # keys of docs/frameworks.md: rubric, rule, gate, judges, records …
      judges: judges.yaml
      rule: rlvr2+
      records: records.jsonl
      host: 127.0.0.1              # anything but loopback needs a token
      port: 8300
      token_env: RUBRANK_TOKEN
      group_size: 8                # for trainers that send one sample at a time
      deadline: 90                 # seconds in which its siblings must come

    config, file_folder = load_service("service.yaml")
    print(describe_plan(plan_service(config, file_folder)))

There are two folders. `file_folder` is the folder of the file; paths in the file are relative to it. The state folder,
which the key `folder` names, has all files that must survive the process: replies of judges, samples that wait for
others of their group, and answers.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, ValidationError, model_validator

from rubrank._files import check_folder, require_file
from rubrank._plain import explain_complaints, word_list
from rubrank.errors import InvalidInput
from rubrank.rubrics.files import presets, read_data, read_settings
from rubrank.rubrics.rubric import load_rubric, merge_extended
from rubrank.training.config import RewardConfig
from rubrank.training.engine import RewardEngine

PAGE = "service"
"""The help page that errors refer to: `rubrank help service`."""
_OWNER = "serve"  # the command that errors name
_RUBRIC_NAME = re.compile(r"[\w-]{1,100}")  # such as "math-grading_v2"
END_TOKENS = word_list("""
    <|im_end|> <|endoftext|> <|eot_id|> <|end_of_text|> <|eom_id|> <|end|> <|return|> <end_of_turn> <eos> </s>
    <｜end▁of▁sentence｜> [EOS]
""")
"""Special tokens with which a sampled text may end."""


class ServiceConfig(RewardConfig):
    """The keys of the configuration file: those of a reward (`RewardConfig`), and how it is served."""

    folder: str = "rubrank-service"
    """The state folder: files that must survive the process, such as replies of judges, waiting samples, answers."""
    host: str = "127.0.0.1"
    port: int = Field(default=8300, ge=0, le=65535)
    """0: any that is free."""
    token: SecretStr | None = None
    """What callers must send; at most one of the three keys may be set."""
    token_env: str | None = None
    """Name of the environment variable with the token."""
    token_file: str | None = None
    """File with the token."""
    certificate: str | None = None
    """A PEM file; together with `private_key` it turns on TLS."""
    private_key: str | None = None
    rubrics: dict[str, str] = Field(default_factory=dict)
    """Name → file: rubrics that callers may refer to by name, as `rubric` or in `extends`."""
    group_size: int | None = Field(default=None, ge=1)
    """Samples in a group, for trainers that send one sample at a time and do not say `group_size` themselves."""
    deadline: float = Field(default=90.0, gt=0.0, allow_inf_nan=False)
    """Seconds from the first sample of a group until it is scored without those that are still missing."""
    window: int = Field(default=32, ge=1)
    """How many of the last groups of single samples are looked at: if most were incomplete, callers get 503."""
    keep: float = Field(default=3600.0, gt=0.0, allow_inf_nan=False)
    """Seconds for which answers are kept: a call that is repeated within that time gets the same answer."""
    max_body: int = Field(default=64 << 20, ge=1024)
    """Most bytes of a request."""
    max_waiting: int = Field(default=65536, ge=1)
    """Pending rollouts; more are refused with 429 until some are done."""
    max_group: int = Field(default=4096, ge=1)
    """Most rollouts in a group."""
    body_timeout: float = Field(default=60.0, gt=0.0, allow_inf_nan=False)
    """Seconds in which the body of a request must arrive."""
    shutdown: float = Field(default=30.0, ge=0.0, allow_inf_nan=False)
    """Seconds that calls in flight get to finish when the service is stopped."""
    end_tokens: tuple[str, ...] = END_TOKENS
    """Removed from the end of responses that OpenRLHF sends: it decodes special tokens as if they were text."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Check settings that depend on each other."""
        names = ("token", "token_env", "token_file")
        tokens = [name for name in names if getattr(self, name) is not None]
        is_too_large = self.group_size is not None and self.group_size > self.max_group
        problems = [  # (is it wrong?, key, what is allowed, what is there)
            (len(tokens) > 1, "token", "given by one key", " and ".join(tokens)),
            (
                (self.certificate is None) != (self.private_key is None),
                "certificate",
                "given together with private_key: TLS needs both files",
                "one of them",
            ),
            # A rule may also be an object, but a configuration file can only name one.
            (not isinstance(self.rule, str), "rule", "the name of a rule", repr(self.rule)),
            (
                is_too_large,
                "group_size",
                f"at most max_group ({self.max_group:,})",
                str(self.group_size),
            ),
        ]
        for is_wrong, key, allowed, got in problems:
            if is_wrong:
                raise InvalidInput(_OWNER, key, allowed, got)
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether `host` is an address that only this machine can reach."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url_host(self) -> str:
        """The host as it is written in a URL: an IPv6 address is in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def read_secret(self, file_folder: Path) -> str | None:
        """Return the token that callers must send; None: no token, which is allowed on a loopback address only.

        Raises InvalidInput if a token is needed and none is set, or it cannot be sent in a header.
        """
        if self.token is not None:
            where = "token"
            secret = self.token.get_secret_value()
        elif self.token_env is not None:
            where = f"token_env {self.token_env}"
            secret = os.environ.get(self.token_env, "")
        elif self.token_file is not None:
            where = f"token_file {self.token_file}"
            path = file_folder / self.token_file
            require_file(path, owner=_OWNER, what="token_file")
            secret = path.read_text(encoding="utf-8")
        elif self.is_loopback:
            return None
        else:
            raise InvalidInput(
                owner=_OWNER,
                parameter="host",
                allowed="a loopback address if there is no token",
                got=self.host,
                remedy="Set token_env: NAME (or token_file: FILE), or leave `host` out: 127.0.0.1.",
            )
        secret = secret.strip()
        if not secret:
            raise InvalidInput(owner=_OWNER, parameter=where, allowed="a text", got="nothing")
        if not secret.isascii() or not secret.isprintable():
            raise InvalidInput(
                owner=_OWNER,
                parameter=where,
                allowed="printable ASCII, because it is sent in a header",
                got="other characters",
            )
        return secret

    def read_rubrics(self, file_folder: Path) -> dict[str, Any]:
        """Return name → content of the files in `rubrics`, merged with the rubrics that they extend.

        Raises InvalidInput if one cannot be used.
        """
        contents: dict[str, Any] = {}
        for name, file in self.rubrics.items():
            if not _RUBRIC_NAME.fullmatch(name) or name in presets():
                allowed = "letters, digits, - and _, and not the name of a preset"
                where = f"the name of {file} in rubrics"
                raise InvalidInput(owner=_OWNER, parameter=where, allowed=allowed, got=repr(name))
            path = file_folder / file
            require_file(path, owner=_OWNER, what=f"rubrics {name}")
            load_rubric(path)  # raises if the rubric is not valid
            contents[name] = merge_extended(read_data(path), str(path), path.parent)
        return contents

    def find_tls_files(self, file_folder: Path) -> tuple[Path, Path] | None:
        """Return certificate and key; None: plain HTTP. Raises InvalidInput if the files do not fit together."""
        if self.certificate is None or self.private_key is None:
            return None
        certificate = file_folder / self.certificate
        private_key = file_folder / self.private_key
        require_file(certificate, owner=_OWNER, what="certificate")
        require_file(private_key, owner=_OWNER, what="private_key")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without `password`, OpenSSL would ask for a passphrase on the terminal, and the service would hang.
            context.load_cert_chain(certificate, private_key, password=lambda: "")
        except (OSError, ValueError) as error:
            # The key of another certificate, not PEM, or with a passphrase.
            problem = getattr(error, "reason", None) or error
            raise InvalidInput(
                owner=_OWNER,
                parameter="certificate",
                allowed="a PEM file, and private_key its key without a passphrase",
                got=f"{certificate.name} and {private_key.name} ({problem})",
            ) from None
        return certificate, private_key

    def state_folder(self, file_folder: Path) -> Path:
        """Return the folder with the files that must survive the process."""
        return file_folder / self.folder

    def make_engine(self, file_folder: Path, *, replica: str = "") -> RewardEngine:
        """Return the reward engine of the service. replica: added to the name of its records file.

        It differs from the engine of a trainer: it has no default control and no alarm, and its judges always have a
        reply cache, because trainers repeat calls.
        """
        engine = self.engine(file_folder, process=replica)
        # Control estimates from the groups so far how much judges favour an attribute, such as length. Groups come one
        # by one here, and each replica sees other groups, so the same group would get different rewards.
        engine.leave_out_default_control()
        # The alarm looks for signs of reward hacking in one training run, but groups of several runs may come here.
        engine.alarm = None
        if engine.judges is None:
            return engine
        if engine.judges.cache is None:
            cache = self.state_folder(file_folder) / "replies.sqlite"
        else:
            cache = file_folder / engine.judges.cache
        engine.judges = engine.judges.model_copy(update={"cache": str(cache)})
        return engine


def load_service(source: str | Path) -> tuple[ServiceConfig, Path]:
    """Return the configuration in a file, and the folder of the file; raises InvalidInput if it cannot be used."""
    path = Path(source)
    data = read_settings(path)
    if not isinstance(data, Mapping):
        raise InvalidInput(
            str(path),
            "file",
            allowed="keys and values",
            got="nothing" if data is None else type(data).__name__,
            remedy=f"See `rubrank help {PAGE}`.",
        )
    return parse_service(data, str(path)), path.resolve().parent


def parse_service(data: Mapping[str, Any], where: str = _OWNER) -> ServiceConfig:
    """Return a configuration from the content of a file; raises InvalidInput with everything that is wrong in it."""
    try:
        return ServiceConfig.model_validate(data)
    except ValidationError as error:
        first, *more = explain_complaints(error, where, ServiceConfig, PAGE)
        raise first.together_with(more) from None


def change_service(config: ServiceConfig, **values: Any) -> ServiceConfig:
    """Return the configuration with other values, such as those of command-line options; None changes nothing."""
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        return config
    unchanged = {name: getattr(config, name) for name in config.model_fields_set}
    return parse_service({**unchanged, **changes})


# --------------------------------------------------------------------------------------------------------------- plan


def require_packages(ray: bool = False) -> None:
    """Raise InvalidInput if the packages of the extra `serve` are not installed."""
    names = ["starlette", "uvicorn", "httptools", "prometheus_client"]
    if ray:
        names.append("ray")
    for name in names:
        if find_spec(name) is None:
            extra = "ray[serve]" if name == "ray" else "rubrank[serve]"
            raise InvalidInput(
                owner=_OWNER,
                parameter="packages",
                allowed="installed",
                got=f"no {name}",
                remedy=f"Install it: pip install '{extra}'.",
            )


def plan_service(config: ServiceConfig, file_folder: Path) -> dict[str, Any]:
    """Check rubric, judges, token and files, and return what the service will do, as JSON data.

    Raises InvalidInput if something cannot be used.
    """
    engine = config.make_engine(file_folder)
    secret = config.read_secret(file_folder)
    tls = config.find_tls_files(file_folder)
    check_folder(config.state_folder(file_folder) / "service.sqlite", owner=_OWNER, what="folder")
    if engine.records is not None:
        check_folder(engine.records, owner=_OWNER, what="records")
    criteria = [] if engine.rubric is None else engine.rubric.criteria
    judges = []
    if engine.judges is not None:
        for judge in engine.judges.judges:
            # The leaves are the judges that send calls, such as the members of a panel.
            models = {endpoint.model for leaf in judge.leaves for endpoint in leaf.endpoints}
            judges.append(
                {
                    "name": judge.name,
                    "kind": judge.kind,
                    "models": sorted(models),
                    "cache": engine.judges.cache,
                }
            )
    return {
        "address": f"{'http' if tls is None else 'https'}://{config.url_host}:{config.port}",
        "token": secret is not None,
        "rule": engine.rule.name,
        "criteria": [criterion.name for criterion in criteria],
        "rubrics": sorted(config.read_rubrics(file_folder)),
        "judges": judges,
        "records": None if engine.records is None else str(engine.records),
        "folder": str(config.state_folder(file_folder)),
        "group_size": config.group_size,
        "deadline": config.deadline,
        "keep": config.keep,
        "max_body": config.max_body,
        "max_waiting": config.max_waiting,
        "shutdown": config.shutdown,
    }


def describe_plan(plan: Mapping[str, Any]) -> str:
    """Return the plan of `plan_service` as text: a labelled line for each key, and for each judge."""
    lines = []
    for name, value in plan.items():
        if name == "judges":
            for judge in value:
                models = ", ".join(judge["models"])
                text = f"{judge['name']}: {judge['kind']}, {models}; replies in {judge['cache']}"
                lines.append(("judge", text))
        elif isinstance(value, list):
            lines.append((name, ", ".join(value) or "none"))
        elif value is None:
            lines.append((name, "none"))
        elif isinstance(value, bool):
            lines.append((name, "yes" if value else "no"))
        else:
            lines.append((name, str(value)))
    return "\n".join(f"{name:<13}{text}" for name, text in lines)
