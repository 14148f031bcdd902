package io.pulsaroperator.conformance;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Reads requests from standard input, one JSON object a line, until it closes; replies go to standard output. */
public final class Main {
    private Main() {}

    /** Serve until standard input closes, then close every client and end. */
    public static void main(String[] arguments) throws IOException {
        PrintStream replies = System.out;
        // Whatever a library prints must not land between two replies.
        System.setOut(System.err);
        Handles handles = new Handles();
        Messages messages = new Messages();
        Server server = new Server(replies, handles, List.of(
                new ClientOperations(handles),
                new ProducerOperations(handles),
                new ConsumerOperations(handles, messages),
                new TransactionOperations(handles)));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        server.hello();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            server.accept(line);
        }
        handles.closeClients();
        // Client threads that still wait for a broker must not keep the process.
        Runtime.getRuntime().halt(0);
    }
}
