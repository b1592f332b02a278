"""What the file of `rubrank serve` holds: a reward, and how it is served.

    service.yaml
      rubric: rubric.yaml          # these are the keys of docs/frameworks.md: rubric, rule, gate, judges, records …
      judges: judges.yaml
      rule: rlvr2+
      records: records.jsonl
      host: 127.0.0.1              # any other than loopback needs a token
      port: 8300
      token_env: RUBRANK_TOKEN
      group_size: 8                # for trainers that send one sample at a time
      deadline: 90                 # seconds in which its siblings must come

    load_service("service.yaml")   (ServiceConfig(…), the folder that it lies in)

Paths are relative to the file. What must outlive the process is in `folder`: replies of judges that were paid for,
samples that wait for siblings, and the answers that were given.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, ValidationError, model_validator

from rubrank._files import require_file
from rubrank._plain import in_our_words, word_list
from rubrank.errors import InvalidInput
from rubrank.training.config import RewardConfig
from rubrank.training.engine import RewardEngine

PAGE = "docs/service.md"
_OWNER = "serve"
END_TOKENS = word_list("""
    <|im_end|> <|endoftext|> <|eot_id|> <|end_of_text|> <|eom_id|> <|end|> <|return|> <end_of_turn> <eos> </s>
    <｜end▁of▁sentence｜> [EOS]
""")
"""With which a sampled text may end, where a trainer sends it with its special tokens."""


class ServiceConfig(RewardConfig):
    """A reward and how it is served."""

    folder: str = "rubrank-service"
    """What must outlive the process: replies of judges, samples that wait, answers."""
    host: str = "127.0.0.1"
    port: int = Field(default=8300, ge=0, le=65535)
    """0: any that is free."""
    token: SecretStr | None = None
    token_env: str | None = None
    token_file: str | None = None
    certificate: str | None = None
    """A PEM file; together with `private_key` it makes the service speak TLS."""
    private_key: str | None = None
    group_size: int | None = Field(default=None, ge=1)
    """Samples of a query, where a trainer sends one at a time and does not say how many there are."""
    deadline: float = Field(default=90.0, gt=0.0, allow_inf_nan=False)
    """Seconds from the first sample of a group until it is scored without those that are still missing."""
    keep: float = Field(default=3600.0, gt=0.0, allow_inf_nan=False)
    """Seconds for which answers are kept, for calls that are repeated."""
    max_body: int = Field(default=64 << 20, ge=1024)
    """Bytes of a request."""
    max_waiting: int = Field(default=65536, ge=1)
    """Rollouts under way; more are turned away with 429 until some are done."""
    max_group: int = Field(default=4096, ge=1)
    """Rollouts in a group."""
    body_timeout: float = Field(default=60.0, gt=0.0, allow_inf_nan=False)
    """Seconds in which a request must have come in."""
    shutdown: float = Field(default=30.0, ge=0.0, allow_inf_nan=False)
    """Seconds that calls under way get at the end."""
    end_tokens: tuple[str, ...] = END_TOKENS
    """Cut off the end of what OpenRLHF sends, which decodes special tokens too."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = [name for name in ("token", "token_env", "token_file") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInput(_OWNER, given[1], "left out where another says the token", f"{given[0]} too", "")
        if (self.certificate is None) != (self.private_key is None):
            missing = "private_key" if self.private_key is None else "certificate"
            raise InvalidInput(_OWNER, missing, "given where the other file of TLS is", "none", "TLS takes both files.")
        if self.group_size is not None and self.group_size > self.max_group:
            raise InvalidInput(
                _OWNER, "group_size", f"at most max_group ({self.max_group:,})", str(self.group_size), ""
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """Can only this machine reach it?"""
        if self.host.lower() == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def secret(self, folder: Path) -> str | None:
        """The token that callers must show; None: none is asked for. Raises where others could come in without one."""
        found = self._secret(folder)
        if found is None and not self.is_loopback:
            remedy = "Say token_env: NAME (or token_file: FILE), or leave `host` out: 127.0.0.1."
            raise InvalidInput(_OWNER, "host", "a loopback address where there is no token", self.host, remedy)
        return found

    def _secret(self, folder: Path) -> str | None:
        if self.token is not None:
            found, where = self.token.get_secret_value(), "token"
        elif self.token_env is not None:
            found, where = os.environ.get(self.token_env, ""), f"token_env {self.token_env}"
        elif self.token_file is not None:
            path = folder / self.token_file
            require_file(path, owner=_OWNER, what="token_file")
            found, where = path.read_text(encoding="utf-8"), f"token_file {self.token_file}"
        else:
            return None
        found = found.strip()
        if not found:
            raise InvalidInput(_OWNER, where, "a text", "nothing", "")
        if not found.isascii() or not found.isprintable():
            raise InvalidInput(_OWNER, where, "printable ASCII, as a header can hold it", "other characters", "")
        return found

    def files_of_tls(self, folder: Path) -> tuple[Path, Path] | None:
        """Certificate and key; None: plain HTTP."""
        if self.certificate is None or self.private_key is None:
            return None
        paths = folder / self.certificate, folder / self.private_key
        for name, path in zip(("certificate", "private_key"), paths, strict=True):
            require_file(path, owner=_OWNER, what=name)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*paths, password=lambda: "")
        except (OSError, ValueError) as error:  # of another certificate, no PEM, with a passphrase
            got = f"{paths[0].name} and {paths[1].name} ({getattr(error, 'reason', None) or error})"
            allowed = "a PEM file, and private_key its key without a passphrase"
            raise InvalidInput(_OWNER, "certificate", allowed, got, "") from None
        return paths

    def state_folder(self, folder: Path) -> Path:
        """Where the files of the service are."""
        return folder / self.folder

    def serving_engine(self, folder: Path, *, apart: str = "") -> RewardEngine:
        """The engine; replies of judges are kept in any case, since a service is asked again."""
        engine = self.engine(folder, process=apart)
        if engine.judges is None:
            return engine
        cache = engine.judges.cache
        kept = self.state_folder(folder) / "replies.sqlite" if cache is None else folder / cache
        engine.judges = engine.judges.model_copy(update={"cache": str(kept)})
        return engine


def load_service(source: str | Path) -> tuple[ServiceConfig, Path]:
    """A configuration and the folder that it lies in."""
    from rubrank.rubrics.files import read_settings

    path = Path(source)
    data = read_settings(path)
    if not isinstance(data, Mapping):
        raise InvalidInput(
            str(path), "file", "keys and values", "nothing" if data is None else type(data).__name__, f"See {PAGE}."
        )
    return service_of(data, str(path)), path.resolve().parent


def service_of(data: Mapping[str, Any], where: str = _OWNER) -> ServiceConfig:
    """The same from what a file holds."""
    try:
        return ServiceConfig.model_validate(data)
    except ValidationError as error:
        first, *others = in_our_words(error, where, ServiceConfig, PAGE)
        raise first.together_with(others) from None


def changed(config: ServiceConfig, **given: Any) -> ServiceConfig:
    """The same with other values; None: as it was."""
    said = {name: value for name, value in given.items() if value is not None}
    if not said:
        return config
    kept = {name: getattr(config, name) for name in config.model_fields_set}
    return service_of({**kept, **said})
