;; Takes the assertions of a suite of clojure.test files apart, and prints those that hold in this JVM: a line for
;; each with its file, what it asks for ("true" or "fails") and its program, tabs between. The argument is the
;; suite's directory, which is on the class path as well. Programs hold all that they need: the definitions of the
;; file that they name, and the names that stand around an assertion.
(require '[clojure.java.io :as io] '[clojure.string :as string] '[clojure.template :as template]
         '[clojure.walk :as walk])

(def patience-ms 2000)

(def fixtures
  "Files that hold no assertions, but what others use."
  #{"portability.cljc" "number_range.cljc"})

(def numbers 'clojure.core-test.number-range)

(defn forms [file]
  (with-open [reader (java.io.PushbackReader. (io/reader file))]
    (loop [all []]
      (let [form (read {:read-cond :allow :features #{:clj} :eof ::end} reader)]
        (if (= form ::end) all (recur (conj all form)))))))

(defn head [form]
  (when (and (seq? form) (symbol? (first form))) (name (first form))))

(defn alternatives
  "The rows of `(are names form & values)`, each as the form with its values."
  [[_ names form & values]]
  (if (seq names)
    (map #(template/apply-template names form %) (partition (count names) values))
    [form]))

(declare assertions)

(defn around
  "The assertions of `body` with `wrap` around each."
  [wrap body]
  (for [[kind form] (assertions body)]
    [kind (wrap form)]))

(defn asserted [form]
  (case (head form)
    "thrown?" (let [body (if (= "p" (namespace (first form))) (rest form) (drop 2 form))]
                ["fails" (if (= 1 (count body)) (first body) (cons 'do body))])
    "thrown-with-msg?" ["fails" (cons 'do (drop 3 form))]
    ["true" form]))

(defn assertions
  "[kind form] of each assertion below some forms; forms before one in the same body are not kept."
  [body]
  (mapcat
    (fn [form]
      (case (head form)
        ("deftest" "testing" "when-var-exists") (assertions (drop 2 form))
        "do" (assertions (rest form))
        "are" (assertions (map #(list 'is %) (alternatives form)))
        "is" [(asserted (second form))]
        "let" (around #(list 'let (second form) %) (drop 2 form))
        "doseq" (for [[kind inner] (assertions (drop 2 form)) :when (= kind "true")]
                  [kind (list 'every? 'identity (list 'for (second form) inner))])
        []))
    body))

(defn definitions
  "The definitions of a file, by name."
  [body]
  (into (array-map)
        (mapcat (fn [form]
                  (case (head form)
                    ("def" "defn" "defn-") [[(second form) form]]
                    ("when-var-exists") (definitions (drop 2 form))
                    "do" (definitions (rest form))
                    []))
                body)))

(defn symbols [form]
  (set (filter symbol? (tree-seq coll? seq form))))

(defn plain
  "A form in the words that a program would be written in."
  [form]
  (walk/postwalk
    (fn [part]
      (cond
        (= part 'fn*) 'fn
        (and (symbol? part) (nil? (namespace part)) (string/ends-with? (name part) "#"))
        (symbol (string/replace (name part) "#" "_"))
        (and (symbol? part) (= "r" (namespace part)))
        (if-let [found (ns-resolve numbers (symbol (name part)))] @found part)
        :else part))
    form))

(defn needed
  "The definitions that a form names, and those that they name, in the order of the file."
  [defined form]
  (loop [names #{} found (filter defined (symbols form))]
    (let [fresh (remove names found)]
      (if (empty? fresh)
        (filter names (keys defined))
        (recur (into names fresh) (mapcat #(filter defined (symbols (defined %))) fresh))))))

(defn text [form]
  (binding [*print-namespace-maps* false *print-length* nil]
    (string/replace (pr-str form) #"[\t\r\n]" #(get {"\t" "\\t" "\r" "\\r" "\n" "\\n"} %))))

(defn holds? [ns kind form]
  (let [job (future (binding [*ns* ns *out* (java.io.StringWriter.) *err* (java.io.StringWriter.)]
                      (try [:value (let [found (eval form)] (when (seq? found) (dorun 1000 found)) found)]
                           (catch Throwable _ [:raised]))))
        [how value] (deref job patience-ms [:late])]
    (future-cancel job)
    (case kind "true" (and (= how :value) (boolean value)) "fails" (= how :raised))))

(let [root (io/file (first *command-line-args*))
      files (->> (file-seq root)
                 (filter #(string/ends-with? (.getName ^java.io.File %) ".cljc"))
                 (remove #(fixtures (.getName ^java.io.File %)))
                 (sort-by str))]
  (require numbers)
  (doseq [^java.io.File file files]
    (let [[header :as all] (try (binding [*ns* (create-ns 'user)] (forms file)) (catch Throwable _ nil))
          space (second header)]
      ;; A file that this Clojure cannot load tests what it does not have.
      (when (try (require space) true (catch Throwable _ false))
        (let [all (binding [*ns* (the-ns space)] (forms file))
              defined (definitions (rest all))
              label (string/replace (string/replace (str space) #"^clojure\." "") "-test" "")]
          (doseq [[kind form] (assertions (rest all))]
            (when (holds? (the-ns space) kind form)
              (let [form (plain form)
                    before (map #(plain (defined %)) (needed defined form))]
                (println (string/join "\t" [label kind (string/join " " (map text (concat before [form])))])))))))))
  (shutdown-agents)
  (System/exit 0))
