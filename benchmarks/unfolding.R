# Stress of smacof's unfolding: Rscript unfolding.R D.csv W.csv [folder of smacof's source]
# Tables without names; a weight of 0 is no entry. The source stands in for an installed smacof.
files <- commandArgs(TRUE)
if (length(files) == 3) {
  source_of <- function(path) gsub("smacof::+", "", readLines(path))
  for (path in list.files(file.path(files[3], "R"), full.names = TRUE)) {
    try(eval(parse(text = source_of(path)), globalenv()), silent = TRUE)
  }
  library <- file.path(tempdir(), "smacof.so")
  code <- list.files(file.path(files[3], "src"), "[.]c$", full.names = TRUE)
  system2("R", c("CMD", "SHLIB", "-o", library, code), stdout = FALSE)
  symbols <- dyn.load(library)
  weightedMean <- getNativeSymbolInfo("weightedMean", symbols)
  wmonreg <- getNativeSymbolInfo("wmonreg", symbols)
} else {
  unfolding <- smacof::unfolding
}
table_of <- function(path) as.matrix(read.csv(path, header = FALSE))
fit <- unfolding(
  table_of(files[1]), ndim = 2, type = "ratio", weightmat = table_of(files[2]),
  itmax = 100000, eps = 1e-12
)
cat(fit$stress)
