;; Evaluates the programs of the standard input, a vector of [id program answers prints], in one JVM, and prints a
;; line for each that gives or prints something else: the id, the likeness, what is expected and what Clojure gives,
;; tabs between. An answer is the text of a value, or nil for a program that has to fail, and any of them will do;
;; `prints` are the lines that it prints, or nil where nobody asks for them.
(require '[clojure.edn :as edn] '[clojure.string :as string] '[clojure.set :as set] '[clojure.walk :as walk])

(def patience-ms 2000)
(def items-max 5000)
(def answer-chars-max 200)

(def not-clojures
  "What Clojure says of a name that it does not have; such a program is not compared."
  #"Unable to resolve|No such (namespace|var)|ClassNotFound|No matching (field|method)|Unable to find static")

(defn replace-both
  "`replace` without a prefix is that of clojure.core or of clojure.string, by the number of arguments."
  ([smap coll] (replace smap coll))
  ([text match replacement] (string/replace text match replacement)))

(defn fresh-ns
  "A namespace with the names that programs use without a prefix."
  []
  (let [name (gensym "program")]
    (binding [*ns* (create-ns name)]
      (refer-clojure)
      (ns-unmap *ns* 'replace)
      (intern *ns* 'replace replace-both)
      (alias 'str 'clojure.string)
      (alias 'string 'clojure.string)
      (alias 'set 'clojure.set)
      (alias 'walk 'clojure.walk)
      (refer 'clojure.string :only '[join trim triml trimr trim-newline upper-case lower-case capitalize starts-with?
                                     ends-with? includes? index-of last-index-of blank? split split-lines])
      (refer 'clojure.set :only '[union intersection difference subset? superset? rename-keys map-invert])
      (refer 'clojure.walk :only '[prewalk postwalk])
      (import 'java.time.LocalDate 'java.time.Instant 'java.time.Duration)
      *ns*)))

(defn plain
  "Values as the language has them: characters are strings, sequences and entries vectors, times their text."
  [value]
  (cond
    (map? value) (into {} (map (fn [[k v]] [(plain k) (plain v)])) value)
    (set? value) (into #{} (map plain) value)
    (or (sequential? value) (instance? java.util.List value)) (mapv plain (take items-max value))
    (var? value) nil
    (char? value) (str value)
    (instance? java.util.Date value) (str (.toInstant ^java.util.Date value))
    (or (instance? java.util.regex.Pattern value)
        (instance? java.time.LocalDate value)
        (instance? java.time.Instant value)) (str value)
    :else value))

(defn same? [a b]
  (or (= a b)
      (and (number? a) (number? b) (== a b) (= (float? a) (float? b)))
      (= (pr-str a) (pr-str b))))

(defn unordered
  "The value with every sequence sorted, so that only its items count."
  [value]
  (walk/postwalk #(if (sequential? %) (vec (sort-by pr-str %)) %) value))

(defn by-value
  "The value with every number as a double."
  [value]
  (walk/postwalk #(if (number? %) (double %) %) value))

(defn spelled
  "The value with what spells numbers and collections in text taken out."
  [value]
  (walk/postwalk
    #(if (string? %) (-> % (string/replace #"(?<=\d)E(?=-?\d)" "e") (string/replace ", " " ")) %)
    value))

(def likenesses
  "Each but for one difference of a kind; the first that makes both the same counts."
  [["order" unordered] ["numbers" by-value] ["spelling" spelled]])

(defn likeness [a b]
  (or (first (keep (fn [[name of]] (when (same? (of a) (of b)) name)) likenesses)) "-"))

(defn cause [^Throwable error]
  (if-let [inner (.getCause error)] (recur inner) error))

(defn answer
  "[:value v printed], or [:raised text printed]; nil when a name is not Clojure's."
  [program]
  (let [ns (fresh-ns)
        out (java.io.StringWriter.)
        job (future
              (try
                (binding [*ns* ns *out* out *err* (java.io.StringWriter.)]
                  [:value (plain (load-string program))])
                (catch Throwable error
                  (let [error (cause error)
                        text (str (.getSimpleName (class error)) ": " (.getMessage ^Throwable error))]
                    (when-not (re-find not-clojures text)
                      [:raised (first (string/split-lines text))])))))
        found (deref job patience-ms [:raised "no answer in time"])]
    (future-cancel job)
    (remove-ns (ns-name ns))
    (when found (conj found (str out)))))

(defn difference
  "[likeness expected text] when Clojure's answer is not the expected one, or it prints something else."
  [expected wanted prints [how found printed]]
  (cond
    (= how :raised) (when wanted ["-" expected "raised"])
    (nil? wanted) ["-" "fails" (pr-str found)]
    (not (same? (first wanted) found)) [(likeness (first wanted) found) expected (pr-str found)]
    (nil? prints) nil
    :else (let [wanted (string/join (map #(str % "\n") prints))
                printed (if (or (= printed "") (string/ends-with? printed "\n")) printed (str printed "\n"))]
            (when (not= wanted printed) ["prints" (pr-str wanted) (pr-str printed)]))))

(defn read-answer
  "[value], or :unreadable."
  [text]
  (try [(plain (edn/read-string {:default (fn [_ v] v)} text))] (catch Throwable _ :unreadable)))

(defn column
  "Text that fits into a column, without what the JVM numbers anew each time."
  [text]
  (string/replace (string/replace text #"(?<=0x|@)[0-9a-f]+|(?<=program|eval|__)\d+" "")
                  #"[\u0000-\u001f\u007f-\u009f\u2028\u2029]" #(format "\\u%04x" (int (first %)))))

(let [cases (edn/read-string (slurp *in*))
      compared (atom 0)]
  (doseq [[id program answers prints] cases]
    (when-let [found (answer program)]
      (let [wanted (map #(when % (read-answer %)) answers)]
        (when-not (some #{:unreadable} wanted)
          (swap! compared inc)
          (let [differences (map #(difference %1 %2 prints found) answers wanted)]
            (when-let [[like expected text] (and (every? some? differences) (first differences))]
              (println (string/join "\t" (map column [id like expected (subs text 0 (min answer-chars-max (count text)))])))))))))
  (println (str "compared\t" @compared))
  (shutdown-agents)
  (System/exit 0))
