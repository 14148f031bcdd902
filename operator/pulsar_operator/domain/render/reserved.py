"""Reserved configuration keys, each with the field to use instead. Data only, read by config.py."""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_operator.api.constants import Component

CONFIG_FIELDS: Mapping[Component, str] = {
    Component.ZOOKEEPER: "spec.metadataStore.managed.config",
    Component.CONFIGURATION_STORE: "spec.configurationStore.managed.config",
    Component.BOOKIE: "spec.bookkeeper.config",
    Component.AUTORECOVERY: "spec.bookkeeper.config",
    Component.BROKER: "spec.broker.config",
    Component.PROXY: "spec.proxy.config",
    Component.STANDALONE: "spec.standalone.config",
}
"""Field in which a user sets the configuration of a component."""

_METADATA = "the operator derives it from spec.metadataStore"
_CONFIGURATION = "the operator derives it from spec.configurationStore of the PulsarInstance"
_CLUSTER = "the operator derives it from spec.clusterName"
_PORTS = "ports are fixed and used by Services and probes"
_ADDRESS = "the operator derives it from the pod's DNS name"
_LISTENERS = "spec.listeners sets it"
_QUORUM = "spec.bookkeeper.ensemble sets it"
_MESSAGE = "spec.broker.maxMessageSize sets it for brokers and bookies together"
_AUTH = "spec.authentication and spec.authorization of the PulsarInstance set it"
_STORE_AUTH = "this version does not support authentication of bookies and ZooKeeper"
_TLS = "this version does not support TLS inside of a cluster"
_EDGE_TLS = "spec.tls.edge of a cluster in mode Distributed sets it"
_VOLUMES = "the operator derives it from the volumes of the pod"
_BALANCER = "spec.loadBalancing.manager sets it"
_AUTORECOVERY = "auto-recovery runs in its own pods, which spec.bookkeeper.autoRecovery configures"
_EMBEDDED = "bookies run in their own pods, which spec.bookkeeper configures"
_FUNCTIONS = "this version does not support functions workers"
_SHUTDOWN = "the operator derives it from the termination grace period of the pods"
_PROBES = "probes and metrics depend on it"
_MEMBERSHIP = "the operator derives the membership from replicas"
_INTERNAL = "only Pulsar itself may set it"
_REPLICATORS = "the operator finds the replication backlog by this prefix"


def _keys(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_SERVER_AUTH = _keys(
    _AUTH,
    """authenticationEnabled authenticationProviders authorizationEnabled authorizationProvider superUserRoles
    proxyRoles anonymousUserRole basicAuthConf tokenSecretKey tokenPublicKey tokenAuthClaim tokenAudienceClaim
    tokenAudience tokenPublicAlg tokenSettingPrefix athenzDomainNames brokerClientAuthenticationPlugin
    brokerClientAuthenticationParameters authenticateOriginalAuthData authenticateMetricsEndpoint
    forwardAuthorizationCredentials authorizationAllowWildcardsMatching""",
)
_SERVER_PORTS = _keys(
    _PORTS,
    """brokerServicePort brokerServicePortTls webServicePort webServicePortTls servicePort servicePortTls
    bindAddress bindAddresses""",
)
_OLD_METADATA = _keys(
    _METADATA, "metadataStoreUrl zookeeperServers zooKeeperServers zkServers metadataStoreConfigPath"
) | _keys(
    _CONFIGURATION,
    "configurationMetadataStoreUrl configurationStoreServers globalZookeeperServers configurationStoreConfigPath",
)
_SERVER_PREFIXES = {
    "tls": _EDGE_TLS,
    "brokerClientTls": _TLS,
    "brokerClientTrustCerts": _TLS,
    "brokerClientKeyFile": _TLS,
    "brokerClientCertificateFile": _TLS,
    "brokerClientSslProvider": _TLS,
    "webServiceTls": _EDGE_TLS,
    "bookkeeperTLS": _TLS,
    "bookkeeperTls": _TLS,
    "replicationTls": _TLS,
    "sasl": _AUTH,
    "kinit": _AUTH,
    "openID": _AUTH,
    # Settings of the clients inside of a broker or proxy: the prefix is taken off, and the rest overrides the typed one
    # (class PulsarService for brokerClient_, class BookKeeperClientFactoryImpl for bookkeeper_).
    "brokerClient_auth": _AUTH,
    "brokerClient_tls": _TLS,
    "brokerClient_useTls": _TLS,
    "brokerClient_useKeyStoreTls": _TLS,
    "brokerClient_ssl": _TLS,
    "brokerClient_serviceUrl": _ADDRESS,
    "brokerClient_proxyServiceUrl": _ADDRESS,
    "brokerClient_socks5": _ADDRESS,
    "bookkeeper_clientAuthProvider": _STORE_AUTH,
    "bookkeeper_bookieAuthProvider": _STORE_AUTH,
    "bookkeeper_tls": _TLS,
    "bookkeeper_clientKeyStore": _TLS,
    "bookkeeper_clientTrustStore": _TLS,
}

_BROKER = {
    **_SERVER_AUTH,
    **_SERVER_PORTS,
    **_OLD_METADATA,
    **_keys(_CLUSTER, "clusterName"),
    **_keys(_ADDRESS, "advertisedAddress"),
    **_keys(_LISTENERS, "advertisedListeners internalListenerName bindAddresses"),
    **_keys(
        _METADATA,
        """bookkeeperMetadataServiceUri bookkeeper_metadataServiceUri bookkeeper_zkServers
        packagesManagementLedgerRootPath""",
    ),
    **_keys(_QUORUM, "managedLedgerDefaultEnsembleSize managedLedgerDefaultWriteQuorum managedLedgerDefaultAckQuorum"),
    **_keys(_MESSAGE, "maxMessageSize nettyMaxFrameSizeBytes bookkeeper_nettyMaxFrameSizeBytes"),
    **_keys(_BALANCER, "loadManagerClassName"),
    **_keys(_EMBEDDED, "enableRunBookieTogether enableRunBookieAutoRecoveryTogether"),
    **_keys(_FUNCTIONS, "functionsWorkerEnabled functionsWorkerEnablePackageManagement functionWorkerConfig"),
    **_keys(_SHUTDOWN, "brokerShutdownTimeoutMs"),
    **_keys(_INTERNAL, "isRunningStandalone"),
    **_keys(_REPLICATORS, "replicatorPrefix"),
    **_keys(
        _STORE_AUTH,
        """bookkeeperClientAuthenticationPlugin bookkeeperClientAuthenticationParametersName
        bookkeeperClientAuthenticationParameters""",
    ),
}

_BOOKIE = {
    **_keys(
        _METADATA,
        """metadataServiceUri zkServers zkLedgersRootPath ledgerManagerFactoryClass ledgerManagerType
        metadata-store-instance registrationManagerClass""",
    ),
    **_keys(
        _ADDRESS, "bookieId advertisedAddress useHostNameAsBookieID useShortHostName listeningInterface allowLoopback"
    ),
    **_keys(_PORTS, "bookiePort allowEphemeralPorts disableServerSocketBind enableLocalTransport"),
    **_keys(
        _VOLUMES,
        "journalDirectory journalDirectories ledgerDirectories indexDirectories gcEntryLogMetadataCachePath",
    ),
    **_keys(_MESSAGE, "nettyMaxFrameSizeBytes"),
    **_keys(_AUTORECOVERY, "autoRecoveryDaemonEnabled"),
    **_keys(_PROBES, "httpServerEnabled httpServerPort httpServerHost httpServerClass"),
    **_keys(
        _STORE_AUTH,
        "bookieAuthProviderFactoryClass clientAuthProviderFactoryClass authorizedRoles permittedStartupUsers",
    ),
    **_keys(
        "a bookie that recreates a missing cookie would hide lost data",
        "dataIntegrityStampMissingCookies",
    ),
}
_BOOKIE_PREFIXES = {"tls": _TLS, "httpServerTls": _TLS, "httpServerKeyStore": _TLS, "httpServerTrustStore": _TLS}

_PROXY = {
    **_SERVER_AUTH,
    **_SERVER_PORTS,
    **_OLD_METADATA,
    **_keys(_CLUSTER, "clusterName"),
    **_keys(_ADDRESS, "advertisedAddress"),
    **_keys(_PROBES, "statusFilePath"),
    **_keys(_MESSAGE, "maxMessageSize"),
    **_keys(
        "proxies find brokers through spec.metadataStore",
        "brokerServiceURL brokerServiceURLTLS brokerWebServiceURL brokerWebServiceURLTLS",
    ),
    **_keys(_FUNCTIONS, "functionWorkerWebServiceURL functionWorkerWebServiceURLTLS"),
}

_STANDALONE = {
    **{key: why for key, why in _BROKER.items() if why not in (_MESSAGE, _BALANCER)},
    **_keys(
        "mode Standalone has one bookie and every quorum is 1",
        "managedLedgerDefaultEnsembleSize managedLedgerDefaultWriteQuorum managedLedgerDefaultAckQuorum",
    ),
    **dict.fromkeys(_OLD_METADATA, "mode Standalone keeps its metadata on the pod's volume"),
    **_keys(_VOLUMES, "journalDirectory journalDirectories ledgerDirectories indexDirectories"),
    **_keys(_ADDRESS, "advertisedListeners internalListenerName"),
    **_keys(_PORTS, "bindAddresses"),
    **_keys("the embedded bookie chooses its own id", "bookieId useHostNameAsBookieID"),
}
# A developer who reaches the pod from outside Kubernetes needs an address that is valid there, such as 127.0.0.1.
del _STANDALONE["advertisedAddress"]

_ZOOKEEPER = {
    **_keys(_VOLUMES, "dataDir dataLogDir"),
    **_keys(_PORTS, "clientPort clientPortAddress"),
    **_keys(_MEMBERSHIP, "dynamicConfigFile standaloneEnabled reconfigEnabled quorumListenOnAllIPs peerType"),
    **_keys("an empty server must not found a new ensemble over existing data", "snapshot.trust.empty db.autocreate"),
    **_keys(_PROBES, "4lw.commands.whitelist"),
    **_keys(_STORE_AUTH, "skipACL DigestAuthenticationProvider.superDigest X509AuthenticationProvider.superUser"),
    **_keys(_TLS, "secureClientPort secureClientPortAddress sslQuorum portUnification serverCnxnFactory"),
}
_ZOOKEEPER_PREFIXES = {
    "server.": _MEMBERSHIP,
    "group.": _MEMBERSHIP,
    "weight.": _MEMBERSHIP,
    "authProvider": _STORE_AUTH,
    "quorum.auth": _STORE_AUTH,
    "ssl.": _TLS,
    "zookeeper.": "the key must be written without the prefix zookeeper.",
}

RESERVED: Mapping[Component, Mapping[str, str]] = {
    Component.ZOOKEEPER: _ZOOKEEPER,
    Component.BOOKIE: _BOOKIE,
    Component.AUTORECOVERY: _BOOKIE,
    Component.BROKER: _BROKER,
    Component.PROXY: _PROXY,
    Component.STANDALONE: _STANDALONE,
}
"""Reason by reserved key, by component."""

RESERVED_PREFIXES: Mapping[Component, Mapping[str, str]] = {
    Component.ZOOKEEPER: _ZOOKEEPER_PREFIXES,
    Component.BOOKIE: _BOOKIE_PREFIXES,
    Component.AUTORECOVERY: _BOOKIE_PREFIXES,
    Component.BROKER: _SERVER_PREFIXES,
    Component.PROXY: _SERVER_PREFIXES,
    Component.STANDALONE: _SERVER_PREFIXES,
}
"""Prefixes of reserved keys with the reason, by component."""

AUTORECOVERY_KEYS = frozenset(
    _keys(
        "",
        """desiredNumZonesPerWriteQuorum enforceMinNumFaultDomainsForWrite enforceMinNumRacksPerWriteQuorum
        enforceStrictZoneawarePlacement ensemblePlacementPolicy ignoreLocalNodeInPlacementPolicy
        inFlightReadEntryNumInLedgerChecker lockReleaseOfFailedLedgerGracePeriod lostBookieRecoveryDelay
        minNumRacksPerWriteQuorum minNumZonesPerWriteQuorum networkTopologyScriptFileName
        openLedgerRereplicationGracePeriod repairedPlacementPolicyNotAdheringBookieEnabled replicationRateByBytes
        reppDnsResolverClass rwRereplicateBackoffMs storeSystemTimeAsLedgerUnderreplicatedMarkTime
        underreplicatedLedgerRecoveryGracePeriod useV2WireProtocol""",
    )
)
"""Keys of bookkeeper.conf that only auto-recovery reads, as auditor, replicator or BookKeeper client (source:
BookKeeper ServerConfiguration, ClientConfiguration and the comments of Pulsar's bookkeeper.conf)."""

AUTORECOVERY_PREFIXES = ("auditor", "rereplication")
"""Prefixes of keys that only auto-recovery reads."""
