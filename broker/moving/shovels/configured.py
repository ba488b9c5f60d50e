"""The static shovels of a node's configuration, as policies/static_shovel.py reads them."""

import logging
from collections.abc import Mapping

from leveret.broker.config import Config, SettingError
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.shovel_parameter import ShovelDefinition
from leveret.broker.policies.static_shovel import parse_static_shovels

logger = logging.getLogger("leveret.shovel")


def static_shovels(config: Config) -> Mapping[str, ShovelDefinition]:
    """The static shovels by their names. Raises SettingError if one of them is wrong."""
    try:
        found = parse_static_shovels(config.advanced.shovels)
    except ParameterError as error:
        raise SettingError("advanced", str(error)) from None
    for sentence in found.without_effect:
        logger.warning("%s: %s", config.advanced.file, sentence)
    return found.definitions
