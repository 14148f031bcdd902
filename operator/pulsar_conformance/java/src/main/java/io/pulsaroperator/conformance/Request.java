package io.pulsaroperator.conformance;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** One request: its number, operation and arguments. */
final class Request {
    /** A chunked message makes a longer text than Jackson takes by itself (20 million characters). */
    private static final int LONGEST_TEXT = 256 * 1024 * 1024;
    static final ObjectMapper JSON = new ObjectMapper(JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(LONGEST_TEXT).build())
            .build());
    private static final long DEFAULT_LIMIT_MS = 25_000;
    private final JsonNode node;

    private Request(JsonNode node) {
        this.node = node;
    }

    /** Parse a line; RequestException when it is not an object with a number. */
    static Request parse(String line) {
        JsonNode node;
        try {
            node = JSON.readTree(line);
        } catch (java.io.IOException error) {
            // The parser's own text would repeat the line, and a line may hold a token.
            throw new RequestException("a request is not JSON");
        }
        if (node == null || !node.isObject() || !node.path("id").isIntegralNumber()) {
            throw new RequestException("a request needs to be an object with an integer \"id\"");
        }
        return new Request(node);
    }

    long id() {
        return node.get("id").asLong();
    }

    String op() {
        return text("op");
    }

    /** The longest this request may take, in milliseconds. */
    long limitMs() {
        return node.path("limit_ms").asLong(DEFAULT_LIMIT_MS);
    }

    boolean has(String name) {
        return node.hasNonNull(name);
    }

    String text(String name) {
        return optionalText(name).orElseThrow(() -> missing(name));
    }

    Optional<String> optionalText(String name) {
        return has(name) ? Optional.of(node.get(name).asText()) : Optional.empty();
    }

    long number(String name) {
        if (!node.path(name).isIntegralNumber()) {
            throw missing(name);
        }
        return node.get(name).asLong();
    }

    long number(String name, long otherwise) {
        return has(name) ? number(name) : otherwise;
    }

    boolean flag(String name) {
        return node.path(name).asBoolean(false);
    }

    byte[] bytes(String name) {
        return Base64.getDecoder().decode(text(name));
    }

    List<String> texts(String name) {
        List<String> values = new ArrayList<>();
        node.path(name).forEach(value -> values.add(value.asText()));
        return values;
    }

    /** Pairs of whole numbers, such as hash ranges. */
    List<int[]> pairs(String name) {
        List<int[]> values = new ArrayList<>();
        node.path(name).forEach(pair -> values.add(new int[] {pair.get(0).asInt(), pair.get(1).asInt()}));
        return values;
    }

    Map<String, String> textMap(String name) {
        return has(name) ? JSON.convertValue(node.get(name), new TypeReference<>() {}) : Map.of();
    }

    Map<String, Object> map(String name) {
        return has(name) ? JSON.convertValue(node.get(name), new TypeReference<>() {}) : Map.of();
    }

    private RequestException missing(String name) {
        return new RequestException(node.path("op").asText() + " needs the argument \"" + name + "\"");
    }
}
