// What the classes of BookKeeper and Pulsar themselves write into a metadata store; tests/support/bookkeeper/classes.py.
//
// records: one line for each record, name, tab, base64.
// store SERVERS: writes into that ZooKeeper, prints "ready", and keeps its session until the input ends.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.bookie.Cookie;
import org.apache.bookkeeper.client.LedgerMetadataBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.discover.BookieServiceInfo;
import org.apache.bookkeeper.discover.RegistrationManager;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.mledger.impl.LedgerMetadataUtils;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.util.StringUtils;
import org.apache.bookkeeper.versioning.Version;
import org.apache.bookkeeper.versioning.Versioned;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.metadata.bookkeeper.PulsarLedgerUnderreplicationManager;
import org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver;

public class BookKeeperRecords {

    static final long CTIME = 1700000000123L;

    static BookieId bookie(int ordinal) {
        return BookieId.parse("c-bookie-" + ordinal + ".c-bookie-headless.pulsar.svc.cluster.local:3181");
    }

    static List<BookieId> bookies(int... ordinals) {
        return Arrays.stream(ordinals).mapToObj(BookKeeperRecords::bookie).toList();
    }

    static LedgerMetadataBuilder builder(int ensemble, int write, int ack) {
        return LedgerMetadataBuilder.create().withId(7).withEnsembleSize(ensemble).withWriteQuorumSize(write)
            .withAckQuorumSize(ack).withDigestType(DigestType.CRC32C).withPassword("secret\n\"\u00e4".getBytes(UTF_8))
            .withCreationTime(CTIME).storingCreationTime(true);
    }

    // Package-private in Pulsar.
    @SuppressWarnings("unchecked")
    static Map<String, byte[]> pulsar(String method, String name) throws Exception {
        Method found = LedgerMetadataUtils.class.getDeclaredMethod(method, String.class);
        found.setAccessible(true);
        return (Map<String, byte[]>) found.invoke(null, name);
    }

    static Map<String, byte[]> topic(String name) throws Exception {
        return pulsar("buildBaseManagedLedgerMetadata", TopicName.get(name).getPersistenceNamingEncoding());
    }

    static Map<String, byte[]> cursor(String topic, String cursor) throws Exception {
        Map<String, byte[]> both = new LinkedHashMap<>(topic(topic));
        both.putAll(pulsar("buildAdditionalMetadataForCursor", cursor));
        return both;
    }

    static LedgerMetadata segments(int version) throws Exception {
        return builder(3, 2, 1).withMetadataFormatVersion(version).newEnsembleEntry(0, bookies(0, 1, 2))
            .newEnsembleEntry(5, bookies(3, 1, 2)).newEnsembleEntry(9, bookies(3, 4, 2)).withClosedState()
            .withLastEntryId(8).withLength(1L << 40).withCustomMetadata(topic("persistent://public/default/a")).build();
    }

    static Map<String, LedgerMetadata> ledgers() throws Exception {
        Map<String, LedgerMetadata> all = new LinkedHashMap<>();
        all.put("open", builder(2, 2, 1).newEnsembleEntry(0, bookies(0, 1))
            .withCustomMetadata(topic("persistent://public/default/a-partition-3")).build());
        all.put("in-recovery", builder(2, 2, 2).newEnsembleEntry(0, bookies(0, 1))
            .newEnsembleEntry(12, bookies(0, 2)).withInRecoveryState()
            .withCustomMetadata(cursor("persistent://t/n/a b+c\u00e4%", "sub/1")).build());
        all.put("closed", builder(2, 2, 2).newEnsembleEntry(0, bookies(0, 1)).withClosedState().withLastEntryId(0)
            .withLength(17).build());
        all.put("closed-empty", builder(2, 2, 2).newEnsembleEntry(0, bookies(0, 1)).withClosedState()
            .withLastEntryId(-1).withLength(0).build());
        all.put("segments", segments(3));
        all.put("text", segments(2));
        all.put("text-open", builder(1, 1, 1).withMetadataFormatVersion(2).newEnsembleEntry(0, bookies(0)).build());
        all.put("first", builder(1, 1, 1).withMetadataFormatVersion(1).newEnsembleEntry(0, bookies(0)).build());
        all.put("empty-password", LedgerMetadataBuilder.create().withId(7).withEnsembleSize(1)
            .withWriteQuorumSize(1).withAckQuorumSize(1).withDigestType(DigestType.MAC).withPassword(new byte[0])
            .newEnsembleEntry(0, bookies(0)).withCToken(-5).build());
        all.put("compacted", builder(1, 1, 1).newEnsembleEntry(0, bookies(0)).withCustomMetadata(LedgerMetadataUtils
            .buildMetadataForCompactedLedger("persistent://t/n/a b", new byte[] {0, -1, 127})).build());
        all.put("schema", builder(1, 1, 1).newEnsembleEntry(0, bookies(0)).withCustomMetadata(LedgerMetadataUtils
            .buildMetadataForSchema(TopicName.get("persistent://t/n/a b").getSchemaName())).build());
        all.put("delayed", builder(1, 1, 1).newEnsembleEntry(0, bookies(0)).withCustomMetadata(LedgerMetadataUtils
            .buildMetadataForDelayedIndexBucket("key", "persistent://t/n/a", "sub")).build());
        all.put("foreign", builder(1, 1, 1).newEnsembleEntry(0, bookies(0))
            .withCustomMetadata(Map.of("application", "other".getBytes(UTF_8), "", new byte[0])).build());
        return all;
    }

    static byte[] cookie(BookieId id) throws Exception {
        return Cookie.newBuilder().setLayoutVersion(5).setBookieId(id.toString()).setJournalDirs("/j/0,/j/1")
            .setLedgerDirs(Cookie.encodeDirPaths(new String[] {"/l/0", "/l/1"})).setInstanceId("the-id").build()
            .toString().getBytes(UTF_8);
    }

    static void records(PrintStream out) throws Exception {
        Map<String, byte[]> all = new LinkedHashMap<>();
        for (Map.Entry<String, LedgerMetadata> each : ledgers().entrySet()) {
            all.put(each.getKey(), new LedgerMetadataSerDe().serialize(each.getValue()));
        }
        all.put("cookie", cookie(bookie(0)));
        for (long id : new long[] {0, 12345, 2147483646L, 2147483647L, 1L << 32, Long.MAX_VALUE}) {
            all.put("path " + id, ("/ledgers" + StringUtils.getHybridHierarchicalLedgerPath(id)).getBytes(UTF_8));
            all.put("mark " + id, PulsarLedgerUnderreplicationManager
                .getUrLedgerPath("/ledgers/underreplication/ledgers", id).getBytes(UTF_8));
            all.put("lock " + id, PulsarLedgerUnderreplicationManager
                .getUrLedgerLockPath("/ledgers/underreplication/locks", id).getBytes(UTF_8));
        }
        for (Map.Entry<String, byte[]> each : all.entrySet()) {
            out.println(each.getKey() + "\t" + Base64.getEncoder().encodeToString(each.getValue()));
        }
    }

    static void store(String servers, PrintStream out) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("metadata-store:zk:" + servers);
        PulsarMetadataBookieDriver driver = new PulsarMetadataBookieDriver();
        driver.initialize(conf, NullStatsLogger.INSTANCE);
        RegistrationManager registration = driver.createRegistrationManager();
        registration.initNewCluster();
        for (int ordinal = 0; ordinal < 3; ordinal++) {
            registration.writeCookie(bookie(ordinal), new Versioned<>(cookie(bookie(ordinal)), Version.NEW));
        }
        registration.registerBookie(bookie(0), false, BookieServiceInfo.EMPTY);
        registration.registerBookie(bookie(1), true, BookieServiceInfo.EMPTY);
        LedgerManagerFactory factory = driver.getLedgerManagerFactory();
        LedgerManager ledgers = factory.newLedgerManager();
        ledgers.createLedgerMetadata(3, ledgers().get("open")).get();
        ledgers.createLedgerMetadata(4, ledgers().get("in-recovery")).get();
        ledgers.createLedgerMetadata(5, ledgers().get("closed-empty")).get();
        ledgers.createLedgerMetadata((1L << 32) + 6, ledgers().get("segments")).get();
        LedgerUnderreplicationManager marks = factory.newLedgerUnderreplicationManager();
        marks.markLedgerUnderreplicatedAsync(4, List.of(bookie(1).toString())).get();
        marks.markLedgerUnderreplicatedAsync((1L << 32) + 6, List.of(bookie(2).toString(), bookie(3).toString())).get();
        marks.markLedgerUnderreplicatedAsync(9, List.of(bookie(1).toString())).get();
        if (marks.pollLedgerToRereplicate() < 0) {
            throw new IllegalStateException("no ledger is marked");
        }
        marks.initializeLostBookieRecoveryDelay(90);
        marks.disableLedgerReplication();
        factory.newLedgerAuditorManager().tryToBecomeAuditor(bookie(2).toString(), event -> { });
        out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
        driver.close();
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        if (args[0].equals("records")) {
            records(out);
        } else {
            store(args[1], out);
        }
        out.flush();
        System.exit(0);
    }
}
