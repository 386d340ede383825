;; Evaluates the programs of the standard input, a vector of [id program expected], in one JVM, and prints a
;; line for each that gives something else: the id, what is expected and what Clojure gives, tabs between.
(require '[clojure.edn :as edn] '[clojure.string :as string] '[clojure.set :as set] '[clojure.walk :as walk])

(def patience-ms 2000)
(def items-max 5000)

(defn fresh-ns
  "A namespace with the names that programs use without a prefix."
  []
  (let [name (gensym "program")]
    (binding [*ns* (create-ns name)]
      (refer-clojure)
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
  "Values as the language has them: characters are strings, sequences and entries vectors."
  [value]
  (cond
    (map? value) (into {} (map (fn [[k v]] [(plain k) (plain v)])) value)
    (set? value) (into #{} (map plain) value)
    (or (sequential? value) (instance? java.util.List value)) (mapv plain (take items-max value))
    (char? value) (str value)
    (instance? java.util.regex.Pattern value) (str value)
    (or (instance? java.time.LocalDate value) (instance? java.time.Instant value)) (str value)
    :else value))

(defn same? [a b]
  (or (= a b)
      (and (number? a) (number? b) (== a b) (= (float? a) (float? b)))
      (= (pr-str a) (pr-str b))))

(defn cause [^Throwable error]
  (if-let [inner (.getCause error)] (recur inner) error))

(defn answer
  "[:value v], or [:raised text]; nil when a name is not Clojure's."
  [program]
  (let [ns (fresh-ns)
        job (future
              (try
                (binding [*ns* ns *out* (java.io.StringWriter.) *err* (java.io.StringWriter.)]
                  [:value (plain (load-string program))])
                (catch Throwable error
                  (let [text (str (.getMessage ^Throwable (cause error)))]
                    (if (re-find #"Unable to resolve|No such (namespace|var)|ClassNotFound|Unmatched|EOF while|Invalid (token|number)|Unsupported|No (matching|field|method)" text)
                      nil
                      [:raised (first (string/split-lines text))])))))
        found (deref job patience-ms [:raised "no answer in time"])]
    (future-cancel job)
    (remove-ns (ns-name ns))
    found))

(let [cases (edn/read-string (slurp *in*))
      compared (atom 0)]
  (doseq [[id program expected] cases]
    (when-let [[how found] (answer program)]
      (let [wanted (try [(plain (edn/read-string {:default (fn [_ v] v)} expected))] (catch Throwable _ nil))]
        (when wanted
          (swap! compared inc)
          (when-not (and (= how :value) (same? (first wanted) found))
            (let [text (if (= how :value) (pr-str found) (str "raised: " found))]
              (println (string/join "\t" [id expected (string/replace (subs text 0 (min 200 (count text))) #"[\t\n]" " ")]))))))))
  (println (str "compared\t" @compared "\t"))
  (shutdown-agents)
  (System/exit 0))
