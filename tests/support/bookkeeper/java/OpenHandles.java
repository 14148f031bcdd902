// A writer like a broker's managed ledger: it keeps a ledger open, and makes a new one where a write fails. What was
// acknowledged to it is read with another client. Commands by line; each is answered by one line.
//
// SERVERS with the chroot. topic NAME ID ID: open a ledger on these bookies. add NAME N: so many entries; how many were
// acknowledged. ensemble NAME: bookies that the handle names. close NAME: somebody else closes its ledger. move NAME ID:
// auto-recovery copies what that bookie has elsewhere. rename NAME NAME. lost NAME: how many acknowledged entries nobody can read.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;

public class OpenHandles {

    static final byte[] PASSWORD = "p".getBytes(UTF_8);
    static final BookKeeper.DigestType DIGEST = BookKeeper.DigestType.CRC32C;
    static final int MOST = 200;

    record Entry(long ledger, long id) { }

    static class Topic {
        LedgerHandle handle;
        final List<Entry> acknowledged = new ArrayList<>();
    }

    static ClientConfiguration conf(String store) {
        ClientConfiguration found = new ClientConfiguration();
        found.setMetadataServiceUri("metadata-store:zk:" + store);
        return found;
    }

    static Set<String> ensemble(LedgerHandle handle) {
        List<BookieId> last = handle.getLedgerMetadata().getAllEnsembles().lastEntry().getValue();
        return last.stream().map(BookieId::toString).collect(Collectors.toSet());
    }

    static LedgerHandle open(BookKeeper client, Set<String> on) throws Exception {
        for (int number = 0; number < MOST; number++) {
            LedgerHandle made = client.createLedger(2, 2, 2, DIGEST, PASSWORD);
            if (on.isEmpty() || ensemble(made).equals(on)) {
                return made;
            }
            client.deleteLedger(made.getId());
        }
        throw new IllegalStateException("no ledger on " + on);
    }

    static int add(BookKeeper client, Topic topic, int count) throws Exception {
        int done = 0;
        for (int number = 0; number < count; number++) {
            for (int tries = 0; tries < 10; tries++) {
                try {
                    long id = topic.handle.addEntry(("entry " + number).getBytes(UTF_8));
                    topic.acknowledged.add(new Entry(topic.handle.getId(), id));
                    done++;
                    break;
                } catch (BKException error) {
                    System.err.println("ledger " + topic.handle.getId() + " is written no more: " + error);
                    topic.handle = open(client, Set.of());
                }
            }
        }
        return done;
    }

    static int lost(String store, Topic topic) throws Exception {
        int lost = 0;
        try (BookKeeper reader = new BookKeeper(conf(store))) {
            for (Entry entry : topic.acknowledged) {
                try (LedgerHandle read = reader.openLedger(entry.ledger(), DIGEST, PASSWORD)) {
                    if (read.getLastAddConfirmed() < entry.id()) {
                        lost++;
                    } else {
                        read.readEntries(entry.id(), entry.id()).nextElement().getEntry();
                    }
                } catch (BKException error) {
                    System.err.println("entry " + entry + ": " + error);
                    lost++;
                }
            }
        }
        return lost;
    }

    static String answer(String store, BookKeeper client, Map<String, Topic> topics, String[] words) throws Exception {
        Topic topic = topics.computeIfAbsent(words[1], name -> new Topic());
        switch (words[0]) {
            case "topic":
                topic.handle = open(client, new HashSet<>(List.of(words).subList(2, words.length)));
                return "ledger " + topic.handle.getId();
            case "add":
                return "acknowledged " + add(client, topic, Integer.parseInt(words[2]));
            case "ensemble":
                return "ensemble " + String.join(" ", ensemble(topic.handle));
            case "close":
                try (BookKeeper other = new BookKeeper(conf(store))) {
                    other.openLedger(topic.handle.getId(), DIGEST, PASSWORD).close();
                }
                return "closed";
            case "move":
                try (BookKeeper other = new BookKeeper(conf(store));
                     BookKeeperAdmin admin = new BookKeeperAdmin(other, conf(store))) {
                    admin.recoverBookieData(topic.handle.getId(), Set.of(BookieId.parse(words[2])), false, false);
                }
                return "moved";
            case "rename":
                topics.put(words[2], topics.remove(words[1]));
                return "renamed";
            case "lost":
                return "lost " + lost(store, topic);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<String, Topic> topics = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        try (BookKeeper client = new BookKeeper(conf(arguments[0]))) {
            out.println("ready");
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                try {
                    out.println(answer(arguments[0], client, topics, line.split(" ")));
                } catch (Exception error) {
                    error.printStackTrace();
                    out.println("error " + error);
                }
            }
        }
    }
}
